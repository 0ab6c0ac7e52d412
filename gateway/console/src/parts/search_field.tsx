import { useEffect, useRef } from "react";
import { adjust, go, useRoute } from "../model/route";

/** Looks for any part by its name. The key / leads to it from anywhere in the page. */
export function SearchField() {
  const { view, find = "" } = useRoute();
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const focus = (event: KeyboardEvent): void => {
      const typing = event.target instanceof HTMLElement && event.target.closest("input, select, textarea");
      if (event.key !== "/" || typing || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      input.current?.focus();
    };
    window.addEventListener("keydown", focus);
    return () => window.removeEventListener("keydown", focus);
  }, []);
  function search(text: string): void {
    if (view === "search") adjust({ find: text });
    else if (text) go({ view: "search", find: text });
  }

  return (
    <label className="find">
      <span className="hidden">Find any part</span>
      <input
        ref={input}
        type="search"
        value={view === "search" ? find : ""}
        placeholder="Find any part  /"
        onChange={(event) => search(event.target.value)}
      />
    </label>
  );
}
