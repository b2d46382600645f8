"""A real browser, where there is one."""

import shutil

import pytest


@pytest.fixture(scope="session")
def new_browser():
    """Opens windows of Chromium, each a browser of its own; they are closed at the end."""
    webdriver = pytest.importorskip(
        "selenium.webdriver", reason="selenium is not installed: pages are not tested in a browser"
    )
    names = ("chromium", "chromium-browser", "google-chrome")
    chromium, driver = next(filter(None, map(shutil.which, names)), None), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("there is no Chromium with its driver here (Debian's chromium and chromium-driver)")
    opened = []

    def open_one(width=1200, height=900, dark=False):
        options = webdriver.ChromeOptions()
        options.binary_location = chromium
        given = (
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            f"--window-size={width},{height}",
        )
        for argument in given:
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        browser = webdriver.Chrome(options, webdriver.ChromeService(driver))
        opened.append(browser)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        return browser

    yield open_one
    for browser in opened:
        browser.quit()


@pytest.fixture(scope="session")
def browser(new_browser):
    """One for all tests that need no other."""
    return new_browser()
