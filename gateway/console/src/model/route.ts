/** The state of the page is in its address, so that it survives a reload and can be sent to somebody. */

import { useSyncExternalStore } from "react";

export const VIEWS = [
  "overview",
  "health",
  "graph",
  "timeline",
  "streams",
  "connectors",
  "processes",
  "letters",
  "search",
] as const;
export type View = (typeof VIEWS)[number];
export type Route = { view: View } & Partial<Record<string, string>>;

export function parseRoute(search: string): Route {
  const found: Record<string, string> = Object.fromEntries(new URLSearchParams(search));
  const view = VIEWS.find((name) => name === found["view"]) ?? "overview";
  return { ...found, view };
}

export function formatRoute(route: Partial<Record<string, string>>): string {
  const entries = Object.entries(route).filter((entry): entry is [string, string] => Boolean(entry[1]));
  return `?${new URLSearchParams(entries).toString()}`;
}

const CHANGED = "headrace-route";
let parsed: { search: string; route: Route } | null = null;

function current(): Route {
  const search = window.location.search;
  if (parsed?.search !== search) parsed = { search, route: parseRoute(search) };
  return parsed.route;
}

function subscribe(listener: () => void): () => void {
  window.addEventListener("popstate", listener);
  window.addEventListener(CHANGED, listener);
  return () => {
    window.removeEventListener("popstate", listener);
    window.removeEventListener(CHANGED, listener);
  };
}

export function useRoute(): Route {
  return useSyncExternalStore(subscribe, current);
}

/** Goes to another view; the reader can go back. */
export function go(route: Route): void {
  window.history.pushState(null, "", formatRoute(route));
  window.dispatchEvent(new Event(CHANGED));
}

/** Changes parts of the state of this view, which is no step to go back to. */
export function adjust(state: Partial<Record<string, string>>): void {
  window.history.replaceState(null, "", formatRoute({ ...current(), ...state }));
  window.dispatchEvent(new Event(CHANGED));
}
