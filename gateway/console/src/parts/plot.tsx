import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { clockTime } from "../model/format";
import { steps, type PlotLine } from "../model/plots";

const HEIGHT = 150;
const DASHES: number[][] = [[], [6, 4], [2, 3]];

interface Props {
  title: string;
  /** Moments in seconds since 1970, oldest first. */
  times: number[];
  lines: PlotLine[];
  format: (value: number) => string;
  /** Moments to mark, in seconds since 1970: the beginnings of faults. */
  marks: number[];
  from: number;
  to: number;
}

/** Lines over time. Each has a colour and a dash of its own, and its last and largest value as text. */
export function Plot({ title, times, lines, format, marks, from, to }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const shown = useRef({ from, to, marks, format });
  const names = lines.map((line) => line.name).join("\n");
  useEffect(() => {
    shown.current = { from, to, marks, format };
    plot.current?.setData([times, ...lines.map((line) => line.values)]);
  }, [times, lines, marks, format, from, to]);
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const drawn = () => {
      plot.current?.destroy();
      plot.current = newPlot(element, names.split("\n"), shown);
    };
    drawn();
    plot.current?.setData([times, ...lines.map((line) => line.values)]);
    const sizes = new ResizeObserver(() =>
      plot.current?.setSize({ width: Math.max(1, element.clientWidth), height: HEIGHT }),
    );
    sizes.observe(element);
    // Colours are read when the lines are drawn.
    const redraw = () => {
      COLOURS.clear();
      plot.current?.redraw();
    };
    const scheme = window.matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", redraw);
    const theme = new MutationObserver(redraw);
    theme.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    return () => {
      sizes.disconnect();
      theme.disconnect();
      scheme.removeEventListener("change", redraw);
      plot.current?.destroy();
      plot.current = null;
    };
    // The values of the first drawing are set again by the effect above.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [names]);
  return (
    <figure className="plot">
      <figcaption>
        <span className="title">{title}</span>
        {lines.map((line, index) => (
          <span key={line.name} className="key">
            <svg width="22" height="8" aria-hidden="true">
              <line
                className={`line${index}`}
                x1="0"
                x2="22"
                y1="4"
                y2="4"
                strokeDasharray={(DASHES[index] ?? []).join(" ")}
              />
            </svg>
            {line.name} <strong>{text(line.values.at(-1), format)}</strong>
            <span className="muted">max {text(largest(line.values), format)}</span>
          </span>
        ))}
      </figcaption>
      <div ref={place} className="canvas" aria-hidden="true" />
    </figure>
  );
}

function text(value: number | null | undefined, format: (value: number) => string): string {
  return value === null || value === undefined ? "–" : format(value);
}

function largest(values: (number | null)[]): number | null {
  return values.reduce<number | null>(
    (most, one) => (one !== null && (most === null || one > most) ? one : most),
    null,
  );
}

/** Colours of the theme, by class: the browser works out the page's styles anew for each that is read. */
const COLOURS = new Map<string, string>();

function colour(name: string): string {
  const known = COLOURS.get(name);
  if (known !== undefined) return known;
  // A canvas does not know light-dark(); the computed colour of an element does.
  const probe = document.createElement("span");
  probe.className = name;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  COLOURS.set(name, found);
  return found;
}

interface Shown {
  from: number;
  to: number;
  marks: number[];
  format: (value: number) => string;
}

function newPlot(element: HTMLDivElement, names: string[], shown: { current: Shown }): uPlot {
  const axis = {
    stroke: () => colour("plot-text"),
    grid: { stroke: () => colour("plot-grid"), width: 1 },
    font: "11px sans-serif",
  };
  return new uPlot(
    {
      width: Math.max(1, element.clientWidth),
      height: HEIGHT,
      legend: { show: false },
      cursor: { drag: { x: false, y: false } },
      scales: {
        x: { time: true, range: () => [shown.current.from, shown.current.to] },
        y: { range: (_, __, most) => [0, most > 0 ? most * 1.08 : 10] },
      },
      axes: [
        {
          ...axis,
          values: (_, ticks) => ticks.map((at) => clockTime(at * 1000)),
          space: 80,
          size: 30,
        },
        {
          ...axis,
          size: 74,
          values: (_, ticks) => ticks.map((tick) => shown.current.format(tick)),
          space: 34,
          incrs: () => steps(shown.current.format),
        },
      ],
      series: [
        {},
        ...names.map((name, index) => ({
          label: name,
          stroke: () => colour(`line${index}`),
          width: 1.6,
          dash: DASHES[index] ?? [],
          points: { show: false },
          spanGaps: false,
        })),
      ],
      hooks: {
        draw: [
          (drawn) => {
            const { ctx, bbox } = drawn;
            ctx.save();
            ctx.strokeStyle = colour("plot-fault");
            ctx.lineWidth = 1.5;
            ctx.setLineDash([4, 3]);
            for (const at of shown.current.marks) {
              const x = drawn.valToPos(at, "x", true);
              if (x < bbox.left || x > bbox.left + bbox.width) continue;
              ctx.beginPath();
              ctx.moveTo(x, bbox.top);
              ctx.lineTo(x, bbox.top + bbox.height);
              ctx.stroke();
            }
            ctx.restore();
          },
        ],
      },
    },
    [[]],
    element,
  );
}
