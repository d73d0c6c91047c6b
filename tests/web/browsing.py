"""A browser, a server for it, and what a person does there."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import uvicorn
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.remote.webelement import WebElement

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
HURRY = """{
    const { setTimeout: later } = window;
    window.setTimeout = (act, after) => later(act, after > 1000 ? after : after / 10);
}"""
"""A tenth of the pauses before a question takes a tap and a call is tried again."""

WIDGET = """
    const done = arguments[0];
    const heard = [];
    const texts = document.getElementById("botorch-pref-texts").textContent;
    const model = {
        get: (name) => ({ texts: JSON.parse(texts) })[name],
        on: (name, hear) => heard.push(hear),
        send: async ({ id, call, given }) => {
            const known = Object.entries(given).filter(([, value]) => value !== null);
            const reply = await (call === "answer"
                ? fetch("api/answer", {
                    method: "POST",
                    headers: { "Content-Type": "application/json" },
                    body: JSON.stringify(Object.fromEntries(known)),
                })
                : fetch(`api/${call}?${new URLSearchParams(known)}`));
            const found = await reply.json();
            const said = reply.ok ? { id, found } : { id, error: found.error };
            heard.forEach((hear) => hear(said));
        },
    };
    const el = document.createElement("div");
    document.getElementById("botorch-pref-page").replaceChildren(el);
    import(new URL("static/question.js", location.href).href)
        .then((module) => { module.default.render({ model, el }); done(true); });
"""
"""Renders the widget in place of the page, whose calls get its messages."""

PATIENCE = 60.0
"""Seconds after which a browser will not do it any more, on however busy a machine."""


def missing() -> str | None:
    """Names what a browser test lacks; None if it lacks nothing."""
    if not any(map(shutil.which, BROWSERS)):
        return f"there is none of {', '.join(BROWSERS)}"
    return None if shutil.which("chromedriver") else "there is no chromedriver"


@contextmanager
def browser() -> Iterator[WebDriver]:
    options = Options()
    options.binary_location = next(filter(None, map(shutil.which, BROWSERS)))
    # In a container there is neither a sandbox nor much shared memory.
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.add_argument("--disable-gpu")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, Service(shutil.which("chromedriver")))
    hurry = {"source": HURRY}
    driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", hurry)
    try:
        yield driver
    finally:
        driver.quit()


@contextmanager
def serving(app: Any, port: int = 0) -> Iterator[str]:
    """Serves an application in a thread, at the address that it yields."""
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        # A browser may come before the thread has begun.
        listening.listen()
        config = uvicorn.Config(app, log_level="warning", ws="none")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def until(happened: Callable[[], Any]) -> Any:
    """Returns what a function returns as soon as that is true.

    An element that the page redraws while the function reads it is read again.
    """
    end = time.monotonic() + PATIENCE
    while True:
        with suppress(StaleElementReferenceException):
            if outcome := happened():
                return outcome
        assert time.monotonic() < end, f"{happened} never happened"
        time.sleep(0.02)


class Visitor:
    """Somebody before a page.

    Args:
        driver: Of the browser.
        width: Of the window; a phone's where it is less than 600.
        height: Of the window.
    """

    def __init__(self, driver: WebDriver, width: int, height: int = 844) -> None:
        self.driver = driver
        # Of the application, where a test serves one.
        self.address = ""
        self.resize(width, height)

    def resize(self, width: int, height: int) -> None:
        phone = width < 600
        size = {"width": width, "height": height}
        kind = {"deviceScaleFactor": 1, "mobile": phone}
        self._cdp("Emulation.setDeviceMetricsOverride", **size, **kind)
        self._cdp("Emulation.setTouchEmulationEnabled", enabled=phone)

    def _cdp(self, command: str, **arguments: Any) -> Any:
        return self.driver.execute_cdp_cmd(command, arguments)

    def visit(self, address: str) -> None:
        self.driver.get("about:blank")
        self.driver.get(address)
        self.settled()

    def reload(self) -> None:
        self.driver.refresh()
        self.settled()

    def settled(self) -> str:
        """Returns the number of the question on display, once it can be answered."""
        return until(self._question)

    def _question(self) -> str | None:
        script = """
            const main = document.querySelector("main[aria-busy=false]");
            return main?.querySelector("[role=group]")?.dataset.question;
        """
        return self.driver.execute_script(script)

    def index(self) -> int:
        """Returns the number of the question on display."""
        return int(self.settled())

    def click(self, text: str, within: str = "body") -> None:
        """Clicks what can be seen and begins with a text."""

        def click() -> bool:
            target = self.button(text, within)
            centred = "arguments[0].scrollIntoView({ block: 'center' })"
            self.driver.execute_script(centred, target)
            target.click()
            return True

        # A page that settles may redraw the button before it is clicked.
        until(click)

    def button(self, text: str, within: str = "body") -> WebElement:
        """Finds what can be clicked and begins with a text, within a selector."""
        return until(lambda: self._button(text, within))

    def _button(self, text: str, within: str) -> WebElement:
        kinds = "button, summary, [role=menuitem], [role=radio]"
        # Each element that is asked is two calls of the browser: ask few of them.
        having = """
            const bare = (said) => (said ?? "").replace(/\\s/g, "").toLowerCase();
            return [...document.querySelectorAll(arguments[0])].filter((e) =>
                [e.textContent, e.ariaLabel, e.title]
                    .some((said) => bare(said).includes(bare(arguments[1]))));
        """
        elements = [
            element
            for element in self.driver.execute_script(
                having, f"{within} :is({kinds})", text
            )
            if element.is_displayed()
            and (element.accessible_name or element.text).startswith(text)
        ]
        assert elements, f"nothing begins with {text!r}"
        elements.sort(key=lambda element: element.text == text)
        return elements[-1]

    def answer(self, text: str) -> int:
        """Clicks an answer and waits for what follows; the question's number."""
        return self.leave(lambda: self.click(text))

    def press(self, key: str) -> int:
        """Presses a key and waits for what follows; the question's number."""
        body = self.driver.find_element(By.TAG_NAME, "body")
        return self.leave(lambda: body.send_keys(key))

    def leave(self, act: Callable[[], None]) -> int:
        index = self.index()
        act()
        until(lambda: self._question() not in (None, str(index)))
        return index

    def menu(self, text: str) -> None:
        self.click("Menu")
        self.click(text)

    def enter_name(self, name: str) -> None:
        self.menu("My name")
        field = self.driver.switch_to.active_element
        field.clear()
        field.send_keys(name, Keys.ENTER)
        until(lambda: f"You answer as {name} now." in self.text())
        self.settled()

    def all(self, selector: str) -> list[WebElement]:
        """Finds what a selector of CSS does."""
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        """Reads what a selector finds and can be seen, at one instant."""
        script = """
            return [...document.querySelectorAll(arguments[0])]
                .filter((e) => e.checkVisibility())
                .map((e) => (e.innerText ?? e.textContent).trim());
        """
        return list(self.driver.execute_script(script, selector))

    def boxes(self, selector: str) -> list[dict[str, float]]:
        """Measures what a selector finds, at one instant."""
        script = """
            return [...document.querySelectorAll(arguments[0])]
                .map((e) => e.getBoundingClientRect().toJSON());
        """
        return list(self.driver.execute_script(script, selector))

    def text(self) -> str:
        return self.driver.find_element(By.TAG_NAME, "body").text

    def is_usable(self) -> None:
        """Checks that all fits, can be tapped, and has a name."""
        assert self.fits()
        assert self.small_targets() == []
        assert self.nameless() == []

    def fits(self) -> bool:
        """Tells whether nothing makes the page scroll sideways."""
        script = "return document.documentElement.scrollWidth <= innerWidth"
        return bool(self.driver.execute_script(script))

    def small_targets(self) -> list[str]:
        """Lists what can be tapped and is less than 44 px high or wide."""
        script = """
            return [...document.querySelectorAll("button, summary, select, input, a")]
                .filter((e) => e.checkVisibility())
                .filter((e) => e.getBoundingClientRect().height < 43.5
                            || e.getBoundingClientRect().width < 43.5)
                .map((e) => e.outerHTML)
        """
        return list(self.driver.execute_script(script))

    def nameless(self) -> list[dict[str, Any]]:
        """Lists what a screen reader could operate and not name."""
        operated = {"button", "link", "slider", "textbox", "combobox", "radio", "image"}
        nodes = self._cdp("Accessibility.getFullAXTree")["nodes"]
        return [
            node
            for node in nodes
            if not node.get("ignored")
            and node.get("role", {}).get("value") in operated
            and not node.get("name", {}).get("value")
        ]

    def complaints(self) -> list[str]:
        """Errors and refusals that the browser has noted."""
        return [line["message"] for line in self.driver.get_log("browser")]
