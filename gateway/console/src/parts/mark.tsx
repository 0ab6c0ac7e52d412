import type { ReactNode } from "react";
import { markOf, type Shape } from "../model/marks";

const DRAWN: Record<Shape, ReactNode> = {
  disc: <circle cx="6" cy="6" r="4.5" />,
  ring: <circle cx="6" cy="6" r="3.8" className="open" />,
  triangle: <path d="M6 1 L11 11 H1 Z" />,
  down: <path d="M1 2 H11 L6 11 Z" />,
  diamond: <path d="M6 0.5 L11.5 6 L6 11.5 L0.5 6 Z" />,
  square: <rect x="1.5" y="1.5" width="9" height="9" />,
  frame: <rect x="2" y="2" width="8" height="8" className="open" />,
  cross: <path d="M2 2 L10 10 M10 2 L2 10" className="open" />,
  bars: <path d="M2.5 1.5 H5 V10.5 H2.5 Z M7 1.5 H9.5 V10.5 H7 Z" />,
  dash: <path d="M1 6 H11" className="open" />,
  half: (
    <>
      <circle cx="6" cy="6" r="3.8" className="open" />
      <path d="M6 2 A4 4 0 0 1 6 10 Z" />
    </>
  ),
};

/** A word for what a part does, with a mark of its shape and colour. */
export function Mark({ of, label = of }: { of: string; label?: string }) {
  const { shape, tone } = markOf(of);
  return (
    <>
      <svg className={`mark tone-${tone}`} width="12" height="12" viewBox="0 0 12 12" aria-hidden="true">
        {DRAWN[shape]}
      </svg>
      {label}
    </>
  );
}
