import { describe, expect, it } from "vitest";
import { CONDITIONS, PROCESS_STATES } from "../src/model/words";
import { MARKS, markOf } from "../src/model/marks";
import css from "../src/style.css?raw";

const SCHEMES = ["light", "dark"] as const;
type Rgb = [number, number, number];

/** The two colours of a custom property of the style sheet, for light and dark. */
function coloursOf(selector: string, property: string): Record<(typeof SCHEMES)[number], Rgb> {
  const found = new RegExp(`${selector} \\{[^}]*?${property}: light-dark\\((#[0-9a-f]{6}), (#[0-9a-f]{6})\\)`).exec(
    css,
  );
  if (!found?.[1] || !found[2]) throw new Error(`${selector} has no ${property} for light and dark`);
  return { light: rgb(found[1]), dark: rgb(found[2]) };
}

function rgb(hex: string): Rgb {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)) as Rgb;
}

/** The relative luminance of WCAG 2. */
function luminance(colour: Rgb): number {
  const [r, g, b] = colour.map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  }) as Rgb;
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(one: Rgb, other: Rgb): number {
  const [dark = 0, light = 0] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
}

/** How different two colours look: the redmean approximation, 0 to about 765. */
function distance([r1, g1, b1]: Rgb, [r2, g2, b2]: Rgb): number {
  const mean = (r1 + r2) / 2;
  const [r, g, b] = [r1 - r2, g1 - g2, b1 - b2];
  return Math.sqrt((2 + mean / 256) * r * r + 4 * g * g + (2 + (255 - mean) / 256) * b * b);
}

const pairs = CONDITIONS.flatMap((one, at) => CONDITIONS.slice(at + 1).map((other) => [one, other] as const));

describe("the conditions of the graph", () => {
  it.each(pairs)("%s and %s differ in shape and in colour", (one, other) => {
    const [first, second] = [markOf(one), markOf(other)];
    expect(first.shape).not.toBe(second.shape);
    const [a, b] = [coloursOf(`\\.tone-${first.tone}`, "--tone"), coloursOf(`\\.tone-${second.tone}`, "--tone")];
    for (const scheme of SCHEMES) expect(distance(a[scheme], b[scheme]), scheme).toBeGreaterThan(60);
  });

  it.each([...CONDITIONS])("%s stands out from its background as WCAG 1.4.11 demands", (condition) => {
    const tone = coloursOf(`\\.tone-${markOf(condition).tone}`, "--tone");
    for (const background of ["--bg", "--panel"]) {
      const behind = coloursOf(":root", background);
      for (const scheme of SCHEMES) expect(contrast(tone[scheme], behind[scheme]), scheme).toBeGreaterThanOrEqual(3);
    }
  });
});

describe("the states of processes", () => {
  it.each([...PROCESS_STATES])("%s has a mark", (state) => {
    expect(MARKS).toHaveProperty([state]);
  });
});

describe("texts", () => {
  it.each(["--text", "--muted", "--accent", "--good", "--warn", "--bad"])(
    "%s is read as WCAG 1.4.3 demands",
    (colour) => {
      const text = coloursOf(":root", colour);
      for (const background of ["--bg", "--panel"]) {
        const behind = coloursOf(":root", background);
        for (const scheme of SCHEMES)
          expect(contrast(text[scheme], behind[scheme]), scheme).toBeGreaterThanOrEqual(4.5);
      }
    },
  );
});
