import { OptionDefaults } from "typedoc";

/** @type {Partial<import("typedoc").TypeDocOptions>} */
export default {
  entryPoints: ["src/index.ts"],
  out: "api",
  excludePrivate: true,
  excludeInternal: true,
  treatWarningsAsErrors: true,
  validation: { notExported: true, invalidLink: true, notDocumented: true },
  blockTags: [...OptionDefaults.blockTags, "@generated"],
  sort: ["source-order"],
};
