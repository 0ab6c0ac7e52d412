import { useEffect, useState } from "react";
import { ApiError, request } from "../client/api";

export interface Polled<Answer> {
  /** The last answer; null before the first one, and once the gateway says that there is none. */
  answer: Answer | null;
  error: string;
}

/** The answer of a path of the API, asked for again and again while the page is visible; null for none. */
export function usePolled<Answer>(path: string | null, everyMs: number): Polled<Answer> {
  const [found, setFound] = useState<Polled<Answer> & { path: string | null }>({ path, answer: null, error: "" });
  useEffect(() => {
    if (path === null) return;
    const asked = path;
    let timer: number | undefined;
    let ended = false;
    async function ask(): Promise<void> {
      if (!document.hidden) {
        try {
          const answer = (await request(asked)) as Answer;
          if (!ended) setFound({ path, answer, error: "" });
        } catch (refused) {
          const error = refused instanceof Error ? refused.message : String(refused);
          const gone = refused instanceof ApiError && refused.status === 404;
          if (!ended) setFound((last) => ({ path, answer: gone || last.path !== path ? null : last.answer, error }));
        }
      }
      if (!ended) timer = window.setTimeout(() => void ask(), everyMs);
    }
    void ask();
    return () => {
      ended = true;
      window.clearTimeout(timer);
    };
  }, [path, everyMs]);
  // The answer to another path is not shown under this one.
  return found.path === path ? found : { answer: null, error: "" };
}
