import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app";
import { Feed } from "./client/feed";
import "./style.css";

const root = document.getElementById("root");
if (!root) throw new Error("the page has no element #root");
const feed = new Feed();
void feed.connect();
document.addEventListener("visibilitychange", feed.turn);
createRoot(root).render(
  <StrictMode>
    <App feed={feed} />
  </StrictMode>,
);
