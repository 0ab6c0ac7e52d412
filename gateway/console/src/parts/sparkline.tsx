import { memo } from "react";

const WIDTH = 96;
const HEIGHT = 18;

/** A small line of values over time, for eyes only: the newest value stands beside it as text. */
export const Sparkline = memo(function Sparkline({ values, slots }: { values: number[]; slots: number }) {
  const top = Math.max(1, ...values);
  const step = WIDTH / (slots - 1);
  const left = WIDTH - (values.length - 1) * step;
  const points = values.map((value, index) => {
    const y = HEIGHT - 1.5 - (value / top) * (HEIGHT - 3);
    return `${(left + index * step).toFixed(1)},${y.toFixed(1)}`;
  });
  return (
    <svg className="sparkline" width={WIDTH} height={HEIGHT} aria-hidden="true">
      <polyline points={points.join(" ")} />
    </svg>
  );
});
