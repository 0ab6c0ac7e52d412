import { useMemo } from "react";
import type { Status } from "../model/documents";
import { count } from "../model/format";
import { useRoute } from "../model/route";
import { search } from "../model/search";
import { PartLink } from "../parts/link";

const MAX_SHOWN = 200;

/** Every part whose name contains what somebody looks for. */
export function Search({ status }: { status: Status }) {
  const { find = "" } = useRoute();
  const found = useMemo(() => search(status, find), [status, find]);
  return (
    <>
      <p className="muted" role="status">
        {find.trim() ? `${count(found.length)} found for “${find.trim()}”` : "Type a part of a name above."}
      </p>
      {found.length > 0 && (
        <table className="found">
          <thead>
            <tr>
              <th scope="col">Part</th>
              <th scope="col">State</th>
            </tr>
          </thead>
          <tbody>
            {found.slice(0, MAX_SHOWN).map((one) => (
              <tr key={`${one.part} ${one.state}`}>
                <th scope="row">
                  <PartLink part={one.part} />
                </th>
                <td>{one.state}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {found.length > MAX_SHOWN && (
        <p className="muted">and {count(found.length - MAX_SHOWN)} more: type more of the name</p>
      )}
    </>
  );
}
