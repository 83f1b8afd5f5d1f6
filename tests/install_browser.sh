#!/bin/sh
# Installs Debian's chromium and its driver for the tests of the report page, unless they are there.
# Quiet, safe to run again, and never an error: without a browser those tests are skipped, and say so.
have() { command -v chromium >/dev/null 2>&1 && command -v chromedriver >/dev/null 2>&1; }

have && exit 0
if ! command -v apt-get >/dev/null 2>&1; then
    echo "tests/install_browser.sh: no apt-get here; install chromium and chromedriver to test the report in a browser."
    exit 0
fi
as_root=""
if [ "$(id -u)" -ne 0 ]; then
    if ! sudo -n true 2>/dev/null; then
        echo "tests/install_browser.sh: not root; run 'sudo apt-get install chromium chromium-driver' to test the report in a browser."
        exit 0
    fi
    as_root="sudo -n"
fi
export DEBIAN_FRONTEND=noninteractive
{ $as_root timeout 300 apt-get -qq update &&
    $as_root timeout 900 apt-get -qq -y install --no-install-recommends chromium chromium-driver; } >/dev/null 2>&1
have || echo "tests/install_browser.sh: chromium could not be installed; the tests of the report in a browser will be skipped."
exit 0
