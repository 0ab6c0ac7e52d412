import { memo, useState } from "react";
import type { Series } from "../model/documents";
import { count } from "../model/format";
import { meterOf } from "../model/meters";

const STEP = 10;

/** Shows the counts of the counters and histograms of an application, the first ones at first; nothing if it has none. */
export const Meters = memo(function Meters({ series }: { series: Series[] }) {
  const [shown, setShown] = useState(STEP);
  if (!series.length) return null;
  return (
    <>
      <div className="scroll" tabIndex={0} role="region" aria-label="Counters and histograms">
        <table className="meters">
          <caption>Counters and histograms, over all committed micro-batches</caption>
          <thead>
            <tr>
              <th scope="col">Name</th>
              <th scope="col">Label</th>
              <th scope="col">Count</th>
              <th scope="col">Mean</th>
              <th scope="col">Up to each bound</th>
            </tr>
          </thead>
          <tbody>
            {series.slice(0, shown).map((one, index) => (
              <Row key={index} series={one} />
            ))}
          </tbody>
        </table>
      </div>
      {series.length > shown && (
        <button type="button" onClick={() => setShown(shown + STEP)}>
          Show more of {count(series.length)}
        </button>
      )}
    </>
  );
});

function Row({ series }: { series: Series }) {
  const meter = meterOf(series);
  return (
    <tr>
      <th scope="row">{meter.name}</th>
      <td>{meter.label}</td>
      <td>{meter.count}</td>
      <td>{meter.mean}</td>
      <td>
        {meter.shares.join(" · ") || "–"}
        {meter.further > 0 && ` · and ${count(meter.further)} more`}
      </td>
    </tr>
  );
}
