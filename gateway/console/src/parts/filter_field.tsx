import { Input, Label, SearchField } from "react-aria-components";
import { adjust } from "../model/route";

/** Takes a part of a name, which the address keeps. */
export function FilterField({ value }: { value: string }) {
  return (
    <SearchField value={value} onChange={(text) => adjust({ filter: text })}>
      <Label>Filter</Label>
      <Input placeholder="part of a name" />
    </SearchField>
  );
}
