/* Runs an export of strings by TensorFlow's C API:  run_export DIR LIBRARY... NAME=TEXT...
   DIR has a saved_model.pb. `keras-bert inspect DIR` names the LIBRARYs (.so) that it needs. The n-th TEXT of a NAME is
   row n of this input. Each output becomes a line of JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tensorflow/c/c_api.h"

typedef struct { const char *at, *end; } Bytes;
static void require(int holds, const char *what, const char *problem) {
  if (!holds) fprintf(stderr, "run_export: %s: %s\n", what, problem), exit(1);
}
static void check(TF_Status *status, const char *what) { require(!TF_GetCode(status), what, TF_Message(status)); }

/* The signature is in protocol buffers. A message has fields: each a number and a type, then the content. */
static uint64_t varint(Bytes *from) {
  uint64_t value = 0;
  for (int shift = 0, more = 128; more && from->at < from->end; more = *from->at++ & 128, shift += 7)
    value |= (uint64_t)(*from->at & 127) << shift;
  return value;
}
static int next(Bytes *message, uint64_t number, Bytes *field) { /* reads up to the next field of this number */
  while (message->at < message->end) {
    uint64_t tag = varint(message), type = tag & 7, size = type == 1 ? 8 : type == 5 ? 4 : varint(message);
    *field = (Bytes){message->at, message->at + (type == 0 ? 0 : size)};
    message->at = field->end;
    if (tag >> 3 == number) return 1;
  }
  return *field = *message, 0;
}
static Bytes part(Bytes message, uint64_t number) {
  Bytes field;
  return next(&message, number, &field), field;
}
static char *text_of(Bytes bytes) { return strndup(bytes.at, bytes.end - bytes.at); }
/* Finds the inputs (1) or outputs (2) of a signature. Returns how many there are, at most 16. */
static int tensors(Bytes signature, uint64_t number, TF_Graph *graph, TF_Output *found, char **names) {
  int count = 0;
  for (Bytes entry; count < 16 && next(&signature, number, &entry); count++) {
    char *place = text_of(part(part(entry, 2), 1)), *colon = strchr(place, ':'); /* serving_default_text:0 */
    *colon = 0, names[count] = text_of(part(entry, 1));
    found[count] = (TF_Output){TF_GraphOperationByName(graph, place), atoi(colon + 1)};
  }
  return count;
}

static TF_Tensor *column(const char *name, char **texts, char **end) {
  int64_t rows = 0, size = strlen(name);
  TF_TString *strings = calloc(end - texts + 1, sizeof *strings);
  for (; texts < end; texts++)
    if (!strncmp(*texts, name, size) && (*texts)[size] == '=')
      TF_StringCopy(&strings[rows++], *texts + size + 1, strlen(*texts) - size - 1);
  require(rows > 0, name, "no NAME=TEXT has this name");
  TF_Tensor *tensor = TF_AllocateTensor(TF_STRING, &rows, 1, rows * sizeof *strings);
  return memcpy(TF_TensorData(tensor), strings, rows * sizeof *strings), tensor;
}

static void print_string(const TF_TString *string) {
  const char *text = TF_StringGetDataPointer(string), *end = text + TF_StringGetSize(string);
  for (putchar('"'); text < end; text++)
    printf((unsigned char)*text < ' ' || *text == '"' || *text == '\\' ? "\\u%04x" : "%c", *text);
  putchar('"');
}
static void print(const char *name, TF_Tensor *tensor) {
  printf("{\"name\": \"%s\", \"shape\": [", name);
  for (int i = 0; i < TF_NumDims(tensor); i++) printf(i ? ", %ld" : "%ld", (long)TF_Dim(tensor, i));
  printf("], \"values\": [");
  for (int64_t i = 0; i < TF_TensorElementCount(tensor); i++) {
    if (i) printf(", ");
    if (TF_TensorType(tensor) == TF_FLOAT) printf("%.9g", ((float *)TF_TensorData(tensor))[i]);
    else if (TF_TensorType(tensor) == TF_INT32) printf("%d", ((int *)TF_TensorData(tensor))[i]);
    else print_string((TF_TString *)TF_TensorData(tensor) + i);
  }
  puts("]}");
}

int main(int argc, char **argv) {
  require(argc > 2, "usage", "run_export DIR LIBRARY... NAME=TEXT...");
  TF_Status *status = TF_NewStatus();
  char **texts = argv + 2, **end = argv + argc, *names[16], *directory = argv[1];
  for (; texts < end && !strchr(*texts, '='); texts++) TF_LoadLibrary(*texts, status), check(status, *texts);
  TF_Graph *graph = TF_NewGraph();
  TF_Buffer *read = TF_NewBuffer();
  TF_Session *session = TF_LoadSessionFromSavedModel(
      TF_NewSessionOptions(), NULL, directory, (const char *[]){"serve"}, 1, graph, read, status);
  check(status, directory);
  Bytes meta_graph = {read->data, (const char *)read->data + read->length}, entry, signature = {"", ""};
  while (next(&meta_graph, 5, &entry)) /* a name, and its signature */
    if (!strcmp(text_of(part(entry, 1)), "serving_default")) signature = part(entry, 2);
  TF_Output inputs[16], outputs[16];
  TF_Tensor *given[16], *answers[16];
  int count = tensors(signature, 1, graph, inputs, names);
  require(count > 0, directory, "it has no signature serving_default with inputs");
  for (int i = 0; i < count; i++) given[i] = column(names[i], texts, end);
  int answer_count = tensors(signature, 2, graph, outputs, names);
  TF_SessionRun(session, NULL, inputs, given, count, outputs, answers, answer_count, NULL, 0, NULL, status);
  check(status, directory);
  for (int i = 0; i < answer_count; i++) print(names[i], answers[i]);
}
