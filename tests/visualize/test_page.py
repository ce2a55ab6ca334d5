"""The page in a browser, with a real mouse and real keys."""

import shutil

import numpy as np
import pytest

from keras_bert.visualize.attention_weights import AttentionWeights
from keras_bert.visualize.view import AttentionView

pytestmark = [pytest.mark.slow, pytest.mark.timing]

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM:
        pytest.skip("there is no chromium")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def shown(browser, tmp_path):
    """Shows weights as a page, opened from its file; `settings` are those of a new page."""
    pages, path = [], tmp_path / "attention.html"

    def show(weights, layer=0, head=0, before=lambda page: None, **settings):
        AttentionView(weights).save(path, overwrite=True, layer=layer, head=head)
        pages.append(browser.new_page(**settings))
        before(pages[-1])
        pages[-1].goto(path.as_uri())
        return pages[-1]

    yield show
    for page in pages:
        page.close()


@pytest.fixture
def opened(shown, weights):
    """A page offline, which must complain of nothing and request nothing but itself."""
    complaints, requests = [], []

    def watch(page):
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))

    page = shown(weights, before=watch, offline=True)
    drawn(page, "Layer 0, head 0: 36 lines")
    yield page
    assert page.evaluate("window.ran") is None
    assert complaints == []
    assert requests == [page.url]


def drawn(page, text):
    """Waits until the lines are those that `text` says. A function waits: the page's policy lets no string be one."""
    page.wait_for_function("text => document.getElementById('drawn').textContent.startsWith(text)", arg=text)


def says(page, text):
    page.wait_for_function("text => document.getElementById('readout').textContent === text", arg=text)


def view(page, name):
    page.get_by_role("group", name="View").get_by_role("button", name=name, exact=True).click()
    page.get_by_role("group", name="Heads whose lines are drawn").wait_for(state="hidden")


def test_texts_are_shown_and_run_nothing(opened, weights):
    assert opened.locator("#from button").all_text_contents() == weights.tokens
    assert opened.locator("#to button").all_text_contents() == weights.tokens
    assert opened.locator("#directions b").all_text_contents() == ["attends from (query)", "→", "attends to (key)"]
    assert opened.locator("#texts span").all_text_contents() == [
        f"{name} {text}" for name, text in zip("AB", weights.texts, strict=True)
    ]
    assert opened.locator("img").count() == 0
    assert opened.evaluate("document.scripts.length") == 8


def test_a_picture_opens_its_head(opened):
    view(opened, "All heads")
    pictures = opened.locator("td button")
    assert pictures.count() == 20
    opened.get_by_role("button", name="Layer 1, head 7").click()
    drawn(opened, "Layer 1, head 7: 36 lines")
    assert opened.locator("#heads").is_visible()
    assert opened.locator("#grid").is_hidden()
    assert (opened.locator("#layer").input_value(), opened.locator("#head").input_value()) == ("1", "7")


def test_pointing_at_a_token_isolates_it(opened):
    opened.locator("#from button").nth(3).hover()
    drawn(opened, "Layer 0, head 0: 6 lines")
    others = "[CLS] 0.020, </script><script>window.ran = 1</script> 0.020, [SEP] 0.020, 😀 0.020, [SEP] 0.020"
    says(opened, f"שלום attends to שלום 0.900, {others}")
    opened.locator("#to button").nth(5).hover()
    drawn(opened, "Layer 0, head 0: 6 lines")
    assert opened.locator("#readout").text_content().startswith("[SEP] is attended to by [SEP] 0.900, [CLS] 0.020")
    opened.locator("h1").hover()
    drawn(opened, "Layer 0, head 0: 36 lines")


def test_segments(opened):
    for segments, lines in {"AA": 9, "AB": 9, "BA": 9, "BB": 9, "all": 36}.items():
        opened.get_by_label("Segments").select_option(segments)
        drawn(opened, f"Layer 0, head 0: {lines} lines")
    opened.get_by_label("Segments").select_option("AB")
    opened.locator("#from button").nth(3).hover()  # of B
    drawn(opened, "Layer 0, head 0: 0 lines")
    says(opened, "שלום attends to nothing")


def test_one_text_has_no_segments(shown, weights):
    page = shown(weights._replace(texts=("a",), second=None), layer=1, head=9)
    drawn(page, "Layer 1, head 9: 36 lines")
    assert page.get_by_label("Segments").is_hidden()


def test_heads_are_switched(opened):
    opened.get_by_role("button", name="Lines of head 4").click()
    drawn(opened, "Layer 0, heads 0, 4: 72 lines")
    opened.get_by_role("button", name="Lines of head 0").click()
    drawn(opened, "Layer 0, head 4: 36 lines")
    opened.get_by_role("button", name="Lines of all heads").click()
    drawn(opened, "Layer 0, heads 0, 1, 2, 3, 4, 5, 6, 7, 8, 9: 360 lines")
    opened.locator("#from button").nth(0).hover()
    drawn(opened, "Layer 0, heads 0, 1, 2, 3, 4, 5, 6, 7, 8, 9: 60 lines")
    assert opened.locator("#readout").text_content().endswith(" (mean of 10 heads)")
    opened.get_by_role("button", name="Lines of head 7").dblclick()
    opened.locator("h1").hover()
    drawn(opened, "Layer 0, head 7: 36 lines")
    assert opened.locator("#head").input_value() == "7"


def test_arrows_change_layer_and_head(opened):
    opened.keyboard.press("ArrowRight")
    drawn(opened, "Layer 0, head 1:")
    opened.keyboard.press("ArrowDown")
    drawn(opened, "Layer 1, head 1:")
    opened.keyboard.press("ArrowDown")  # there is no further one
    opened.keyboard.press("ArrowLeft")
    drawn(opened, "Layer 1, head 0:")
    opened.keyboard.press("ArrowUp")
    drawn(opened, "Layer 0, head 0:")


def test_tab_reaches_everything_and_shows_where_it_is(opened):
    reached = []
    opened.evaluate("document.activeElement.blur()")
    for _ in range(40):
        opened.keyboard.press("Tab")
        name = opened.evaluate(
            "(e => e === document.body ? '' : e.id || e.closest('ol')?.id || e.getAttribute('aria-label') "
            "|| e.textContent)(document.activeElement)"
        )
        if not name or name in reached:
            break
        assert opened.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none", name
        reached.append(name)
    heads = [f"Lines of head {head}" for head in range(10)]
    lines = [*heads, "Lines of all heads", "Lines of the chosen head only", "from", "to"]
    assert reached == ["Lines", "Heat map", "All heads", "Neurons", "layer", "head", "segments", *lines]


def test_keys_on_tokens(opened):
    opened.locator("#from button").nth(0).focus()
    drawn(opened, "Layer 0, head 0: 6 lines")
    opened.keyboard.press("ArrowDown")
    opened.wait_for_function("() => document.getElementById('readout').textContent.startsWith('</script>')")
    opened.keyboard.press("ArrowRight")
    drawn(opened, "Layer 0, head 1: 6 lines")
    assert (
        opened.locator("#readout")
        .text_content()
        .startswith("</script><script>window.ran = 1</script> attends to [SEP] 0.900")
    )
    opened.keyboard.press("Escape")
    drawn(opened, "Layer 0, head 1: 36 lines")


def test_heat_map(opened, weights):
    opened.keyboard.press("ArrowRight")
    view(opened, "Heat map")
    cell = opened.locator("#heat").bounding_box()["width"] / len(weights.tokens)
    opened.locator("#heat").hover(position={"x": 4.5 * cell, "y": 3.5 * cell})
    says(opened, "שלום → 😀: 0.8999")  # float16
    opened.get_by_label("Segments").select_option("AB")
    opened.locator("#heat").hover(position={"x": 4.5 * cell, "y": 3.5 * cell})
    says(opened, "שלום → 😀: not of the chosen segments")
    opened.locator("h1").hover()
    opened.locator("#cells").focus()
    opened.keyboard.press("ArrowRight")
    opened.keyboard.press("ArrowDown")
    opened.keyboard.press("ArrowRight")
    opened.keyboard.press("ArrowRight")
    says(opened, "</script><script>window.ran = 1</script> → שלום: 0.0200")


def test_numbers_of_the_page(shown, weights):
    """Float16 is decoded as NumPy does: ordinary numbers, the largest, 0, and those below its normal ones."""
    numbers = np.random.default_rng(0).dirichlet([0.3] * 6, size=(2, 10, 6)).astype(np.float32)
    numbers[1, 4, 2] = [1, 0, 0.5, 3e-5, 0.0009765, 0.3333]
    page = shown(weights._replace(weights=numbers), layer=1, head=4)  # queries and keys are not looked at
    view(page, "Heat map")
    cell = page.locator("#heat").bounding_box()["width"] / 6
    for row, column in np.ndindex(6, 6):
        page.locator("#heat").hover(position={"x": (column + 0.5) * cell, "y": (row + 0.5) * cell})
        expected = f"{weights.tokens[row]} → {weights.tokens[column]}: "
        page.wait_for_function("text => document.getElementById('readout').textContent.startsWith(text)", arg=expected)
        number = float(page.locator("#readout").text_content().removeprefix(expected))
        assert number == pytest.approx(float(np.float16(numbers[1, 4, row, column])), abs=5.1e-5)


def test_pictures_show_the_weights(opened):
    view(opened, "All heads")
    opened.wait_for_function("() => document.querySelector('td canvas').width === 6")
    reds = "c => [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data].filter((_, i) => i % 4 === 0)"
    picture = opened.locator("td canvas").first.evaluate(reds)
    (high,) = {picture[7 * i] for i in range(6)}
    (low,) = {shade for i, shade in enumerate(picture) if i % 7}
    assert high < low


@pytest.mark.parametrize(("name", "id"), [("Lines", "sides"), ("Heat map", "scroll"), ("Neurons", "vectors")])
def test_a_view_grows_with_its_window(shown, pair, name, id):
    page = shown(pair)
    page.get_by_role("group", name="View").get_by_role("button", name=name, exact=True).click()
    sizes = []
    for width, height in ((1000, 1000), (1500, 1400)):
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_timeout(200)
        box = page.locator(f"#{id}").bounding_box()
        sizes.append((box["width"], box["height"]))
        overflow = "[document.body.scrollWidth - innerWidth, document.documentElement.scrollHeight - innerHeight]"
        assert max(page.evaluate(overflow)) <= 0
    assert sizes[1][0] > sizes[0][0] + 100
    assert sizes[1][1] > sizes[0][1] + 100


@pytest.mark.parametrize(("scheme", "colour"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(20, 23, 27)")])
def test_the_page_follows_the_browsers_scheme(shown, weights, scheme, colour):
    page = shown(weights, color_scheme=scheme)
    drawn(page, "Layer 0, head 0: 36 lines")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == colour


def test_in_a_notebook(browser, weights):
    page = browser.new_page()
    page.set_content(f"<p id=from>mine</p>{AttentionView(weights)._repr_html_()}")
    frame = page.frame_locator("iframe")
    frame.get_by_text("Layer 0, head 3: 36 lines").wait_for()
    frame.locator("#from button").nth(0).hover()
    frame.get_by_text("Layer 0, head 3: 6 lines").wait_for()
    assert page.locator("body > p#from").text_content() == "mine"
    page.close()


def numbers_of(page, id):
    return np.array([float(text.replace("−", "-")) for text in page.locator(f"#{id} li").all_text_contents()])


@pytest.fixture(scope="module")
def pair():
    """A pair whose weights are the softmax of what queries and keys give: 3 layers of 2 heads of 64 dimensions."""
    size = 24
    queries, keys = np.random.default_rng(0).normal(size=(2, 3, 2, size, 64)).astype(np.float32)
    queries *= 3
    weights = np.exp(queries @ keys.swapaxes(-1, -2) / 8)
    weights /= weights.sum(-1, keepdims=True)
    return AttentionWeights(("a", "b"), [f"t{i}" for i in range(size)], 10, weights, queries, keys)


@pytest.fixture
def neurons(shown, pair):
    page = shown(pair, layer=2, head=1, offline=True)
    view(page, "Neurons")
    query(page, "t0")
    return page


def query(page, token):
    page.wait_for_function("token => document.getElementById('query').textContent === token", arg=token)


@pytest.mark.parametrize("token", [0, 13, 23])
def test_softmax_of_the_products_is_the_weights(neurons, pair, token):
    neurons.locator("#queries button").nth(token).click()
    query(neurons, f"t{token}")
    np.testing.assert_allclose(numbers_of(neurons, "shares"), pair.weights[2, 1, token], rtol=0, atol=2e-3)
    dots = pair.keys[2, 1] @ pair.queries[2, 1, token] / 8
    np.testing.assert_allclose(numbers_of(neurons, "dots"), dots, rtol=0, atol=0.01)
    named = neurons.locator("#readout").text_content().removeprefix(f"t{token} attends to ").split(", ")[0].split()
    best = np.argmax(dots)
    assert named[0] == f"t{best}"
    assert float(named[1]) == pytest.approx(pair.weights[2, 1, token, best], abs=2e-3)


def test_cells_are_the_products(neurons, pair):
    neurons.locator("#queries button").nth(4).click()
    query(neurons, "t4")
    for name in ("#k", "#qk"):
        box = neurons.locator(name).bounding_box()
        neurons.locator(name).hover(position={"x": 20.5 * box["width"] / 64, "y": 7.5 * box["height"] / 24})
        q, k = pair.queries[2, 1, 4, 20], pair.keys[2, 1, 7, 20]
        neurons.wait_for_function("() => document.getElementById('readout').textContent.includes('dimension 20:')")
        said = neurons.locator("#readout").text_content().replace("−", "-")
        assert said.startswith("t4 → t7, dimension 20: ")
        numbers = [float(part) for part in said.split(": ")[1].split() if part not in "×="]
        np.testing.assert_allclose(numbers, [q, k, q * k], rtol=2e-3, atol=2e-3)
        neurons.locator("h1").hover()
    neurons.locator("#products").focus()
    for key in ["ArrowDown", "ArrowDown", "ArrowRight", "ArrowUp"]:
        neurons.keyboard.press(key)
    neurons.wait_for_function(
        "() => document.getElementById('readout').textContent.startsWith('t4 → t1, dimension 1: ')"
    )


def test_cells_have_the_colours_of_their_signs(neurons, pair):
    colours = "c => [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data]"
    products = pair.keys[2, 1] * pair.queries[2, 1, 0]
    for id, values in {"q": pair.queries[2, 1, :1], "k": pair.keys[2, 1], "qk": products}.items():
        painted = np.reshape(neurons.locator(f"#{id}").evaluate(colours), (*values.shape, 4))
        blue = painted[..., 2] > painted[..., 0]
        clear = np.abs(values) > 0.01 * np.abs(values).max()
        np.testing.assert_array_equal(blue[clear], values[clear] > 0)


def test_a_query_is_pointed_at_kept_and_walked_from(neurons):
    neurons.locator("#queries button").nth(5).hover()
    query(neurons, "t5")
    neurons.locator("h1").hover()
    query(neurons, "t0")
    neurons.locator("#queries button").nth(6).click()
    neurons.locator("#queries button").nth(2).hover()
    query(neurons, "t2")
    neurons.locator("h1").hover()
    query(neurons, "t6")
    neurons.keyboard.press("ArrowDown")
    query(neurons, "t7")
    neurons.keyboard.press("ArrowLeft")
    neurons.wait_for_function("() => document.getElementById('head').value === '0'")
    neurons.keyboard.press("Escape")
    assert neurons.evaluate("document.activeElement === document.body")
    query(neurons, "t7")
    view(neurons, "Heat map")
    view(neurons, "Neurons")
    query(neurons, "t7")


def test_neurons_of_segments(neurons, pair):
    neurons.get_by_label("Segments").select_option("AB")
    neurons.wait_for_function("() => document.querySelector('#shares li').textContent === ''")
    shown = neurons.locator("#shares li").all_text_contents()
    assert shown[:10] == [""] * 10
    np.testing.assert_allclose([float(text) for text in shown[10:]], pair.weights[2, 1, 0, 10:], rtol=0, atol=2e-3)
    neurons.locator("#k").hover(position={"x": 3, "y": 3})
    says(neurons, "t0 → t0: not of the chosen segments")
