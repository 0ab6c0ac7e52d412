import { useEffect, useRef } from "react";
import { Input, Label, SearchField as Field } from "react-aria-components";
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
  return (
    <Field
      className="find"
      value={view === "search" ? find : ""}
      onChange={(text) => (view === "search" ? adjust({ find: text }) : text && go({ view: "search", find: text }))}
    >
      <Label className="hidden">Find any part</Label>
      <Input ref={input} placeholder="Find any part  /" />
    </Field>
  );
}
