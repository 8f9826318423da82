"""Whom the keys of a page belong to: its players, a talk, or what has the focus."""

import pytest

from viz.shared.theme import palettes_for_player

pytestmark = pytest.mark.browser

OWNERS = """
  const did = [];
  const made = (name) => {
    const root = document.createElement("div");
    document.body.append(root);
    return { root, transport: { action: () => () => did.push(name) } };
  };
  const press = (key, target = document.body) => {
    const event = new KeyboardEvent("keydown", { key, bubbles: true, composed: true, cancelable: true });
    target.dispatchEvent(event);
    return event.defaultPrevented;
  };
"""


def test_the_keys_go_back_to_an_owner_that_still_lives(run):
    script = f"""(() => {{
      {OWNERS}
      const drops = ["a", "b", "c"].map((name) => keyboard.takeKeys(made(name)));
      press("x");
      drops[1]();
      drops[2]();
      press("x");
      drops[0]();
      press("x");
      return did;
    }})()"""
    assert run(script) == ["c", "a"]


@pytest.mark.parametrize(
    ("tag", "role", "takes"),
    [("button", "", False), ("summary", "", False), ("div", "tab", False), ("div", "", True)],
)
def test_space_is_left_to_what_it_presses(run, tag, role, takes):
    script = f"""(() => {{
      {OWNERS}
      const drop = keyboard.takeKeys(made("a"));
      const target = document.createElement(given[0]);
      if (given[1]) target.setAttribute("role", given[1]);
      document.body.append(target);
      const isTaken = press(" ", target);
      drop();
      return isTaken;
    }})()"""
    assert run(script, [tag, role]) is takes


@pytest.mark.parametrize(("clicks", "taken"), [(1, True), (0, False)])
def test_space_is_the_players_again_once_a_button_was_clicked(run, clicks, taken):
    """A press of a key on a button counts as no click of the pointer."""
    script = f"""(() => {{
      {OWNERS}
      const owner = made("a");
      const drop = keyboard.takeKeys(owner);
      const button = owner.root.appendChild(document.createElement("button"));
      button.focus();
      button.dispatchEvent(new MouseEvent("click", {{ bubbles: true, detail: given }}));
      const isTaken = press(" ", document.activeElement);
      drop();
      return isTaken;
    }})()"""
    assert run(script, clicks) is taken


def test_enter_follows_a_link_during_a_talk(run):
    script = f"""(() => {{
      {OWNERS}
      const doing = {{ does: (action) => did.push(action), digit() {{}}, released() {{}} }};
      const drop = talk_keys.takeTalkKeys(doing);
      const link = document.createElement("a");
      document.body.append(link);
      const taken = [press("Enter", link), press(" ", link), press("Enter")];
      drop();
      return [taken, did];
    }})()"""
    assert run(script) == [[False, True, True], ["next", "choose"]]


def test_a_talk_that_is_left_gives_the_keys_back(run, data):
    """And not when a rerun cleans up just before the next call."""
    scene = {"title": "zero", "sentence": "", "hidden": [], "stops": [{"step": "1", "sentence": ""}]}
    scene |= {"run": "r", "duel": "", "chart": None, "view": "grid", "row": None, "tells": "", "live": []}
    talk = {"id": "t", "title": "T", "minutes": 1, "runs": {"r": data}, "duels": {}, "scenes": [scene]}
    script = f"""(async () => {{
      {OWNERS}
      const show = (await import("/talk_component.js")).default;
      const parentElement = document.createElement("div");
      parentElement.innerHTML = '<div class="fa-talk" tabindex="-1"></div>';
      document.body.append(parentElement);
      const later = () => new Promise((resolve) => setTimeout(resolve, 20));
      const call = () => show({{ data: {{ talk: given }}, parentElement }});
      call()();
      const leave = call();
      await later();
      const during = press("n");
      leave();
      await later();
      return [during, press("n")];
    }})()"""
    assert run(script, talk | {"palettes": palettes_for_player()}) == [True, False]
