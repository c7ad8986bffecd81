import type { Data } from "../src/data";

/** Some of the words that the program gives the page. */
export const words: Pick<Data, "signs" | "marks"> = {
  signs: {
    more: { glyph: "▲", word: "costs more" }, unsure: { glyph: "~", word: "not decided yet" },
    measured: { glyph: "≈", word: "measured precisely, but too near the margin for a verdict" },
    unranked: { glyph: "≠", word: "not ranked: the sides flush differently" },
  },
  marks: {},
};
