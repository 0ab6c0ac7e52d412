import type { Content } from "../model/documents";
import { bytes } from "../model/format";
import { FORMS, line, shownAs, type Form } from "../model/preview";

/** A preview of a message: where it is, its headers, and how its value begins. */
export function Message({ place, message, form }: { place: string; message: Content; form: Form }) {
  const { key, value, headers } = message;
  const more = message.headers_in_all - headers.length;
  return (
    <>
      <p className="muted">
        {place}
        {key && ` · key ${line(key)}`}
        {message.event_time && ` · ${message.event_time}`}
        {value && ` · ${bytes(value.size)}`}
      </p>
      {headers.length > 0 && (
        <ul className="headers">
          {headers.map((header, at) => (
            <li key={at}>
              {header.name}: {line(header.value)}
            </li>
          ))}
          {more > 0 && <li className="muted">and {more} more</li>}
        </ul>
      )}
      <pre>{value ? shownAs(value, form) : "null"}</pre>
    </>
  );
}

export function FormField({ value, onChange }: { value: Form; onChange: (form: Form) => void }) {
  return (
    <label>
      Show as{" "}
      <select value={value} onChange={(event) => onChange(event.target.value as Form)}>
        {FORMS.map((form) => (
          <option key={form}>{form}</option>
        ))}
      </select>
    </label>
  );
}
