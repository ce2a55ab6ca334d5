# A server of SavedModels, over gRPC and REST, by TensorFlow. In the directory of the source:
#   docker build -t keras-bert .
#   docker run -p 8500:8500 -p 8501:8501 -v "$PWD/served/minilm:/models/minilm" keras-bert /models/minilm
FROM python:3.11-slim
COPY setup.cfg pyproject.toml README.md LICENSE /source/
COPY keras_bert /source/keras_bert
RUN pip install --no-cache-dir '/source[serve]' && useradd --create-home server
USER server
EXPOSE 8500 8501
ENTRYPOINT ["keras-bert", "serve", "--host", "0.0.0.0"]
