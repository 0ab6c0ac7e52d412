import { adjust } from "../model/route";

/** Takes a part of a name, which the address keeps. */
export function FilterField({ value }: { value: string }) {
  return (
    <label className="field">
      Filter
      <input
        type="search"
        value={value}
        placeholder="part of a name"
        onChange={(event) => adjust({ filter: event.target.value })}
      />
    </label>
  );
}
