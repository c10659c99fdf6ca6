// All pages work without this file. It adds copy buttons, keeps the pools
// page fresh, and writes a code's dash.
"use strict";

for (const button of document.querySelectorAll("button[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
    } catch {
      const text = button.parentElement.querySelector("code");
      getSelection().selectAllChildren(text);
      document.execCommand("copy");
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
}

const code = document.getElementById("user_code");
if (code) {
  const tidy = () => {
    const end = code.selectionStart === code.value.length;
    if (!end) return; // somebody edits in the middle
    const letters = code.value.toUpperCase().replace(/[^A-Z]/g, "").slice(0, 8);
    code.value = letters.length > 4 ? letters.slice(0, 4) + "-" + letters.slice(4) : letters;
  };
  code.addEventListener("input", tidy);
}

const live = document.querySelector("[data-live]");
if (live) {
  live.textContent = "Refreshes by itself";
  const refresh = async () => {
    if (!document.hidden) {
      try {
        const answer = await fetch(location.href, { credentials: "same-origin" });
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const fresh = page.getElementById("live");
        if (answer.ok && fresh) document.getElementById("live").replaceChildren(...fresh.childNodes);
        live.textContent = fresh ? "Refreshes by itself" : "Sign in again to refresh";
      } catch {
        live.textContent = "The gateway cannot be reached";
      }
    }
    setTimeout(refresh, 1000 * Number(live.dataset.live));
  };
  setTimeout(refresh, 1000 * Number(live.dataset.live));
}
