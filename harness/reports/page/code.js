// Colours for code: comments, strings, numbers, keywords and the names of definitions, and the lines of a diff.
// Each pattern takes a text whose end is missing as far as it goes, so that the time grows with the length only.

const MOST_COLOURED = 50000;
const HASH = "#[^\\n]*";
const SLASHES = "//[^\\n]*|/\\*(?:[^]*?\\*/|[^]*)";
const QUOTED = `"(?:\\\\[^]|[^"\\\\\\n])*"?|'(?:\\\\[^]|[^'\\\\\\n])*'?`;
const LONG = `"""(?:[^]*?"""|[^]*)|'''(?:[^]*?'''|[^]*)`;
const words_ = (text) => new Set(text.split(" "));
const C_WORDS = "break case catch class const continue default do else enum export extends false finally fn for func function go if impl import in interface let match mod new nil null package pub range return static struct switch this throw true try type undefined use var void while yield async await";
// The comments, the strings and the keywords of each language. Python names no other language.
const LANGUAGES = {
  python: [HASH, `${LONG}|${QUOTED}`, words_("and as assert async await break class continue def del elif else except False finally for from global if import in is lambda match None nonlocal not or pass raise return True try while with yield")],
  bash: [`(?<![\\w$\\{])${HASH}`, QUOTED, words_("case cd do done echo elif else esac exit export fi for function if in local return set then until while")],
  sql: [`--[^\\n]*|/\\*(?:[^]*?\\*/|[^]*)`, QUOTED, words_("all alter and as asc between by case create cross delete desc distinct drop else end exists from group having in index inner insert into is join key left like limit not null offset on or order outer primary right select set table then union update values view when where with")],
  json: ["(?!)", QUOTED, words_("true false null")],
  c: [SLASHES, `\`(?:\\\\[^]|[^\`\\\\])*\`?|${QUOTED}`, words_(C_WORDS)],
};
const DEFINE = words_("class def fn func function struct type interface");
const patterns = new Map();

function findPattern(language) {
  if (!patterns.has(language)) {
    const [comment, string] = LANGUAGES[language];
    patterns.set(language, new RegExp(`(${comment})|(${string})|(\\b\\d[\\w.]*)|([@\\p{L}_$][\\w$]*)`, "gu"));
  }
  return patterns.get(language);
}

const colourLine = (line) => {
  const kind = /^@@/.test(line) ? "f" : /^(\+\+\+|---|diff |index )/.test(line) ? "c" : { "+": "ins", "-": "del" }[line[0]];
  return kind ? element("span", { class: kind }, line) : line;
};

// The parts of a program: texts, and elements for those that have a colour.
function colour(code, language) {
  if (code.length > MOST_COLOURED) return [code];
  if (language === "diff") return code.split(/(?<=\n)/).map(colourLine);
  if (!Object.hasOwn(LANGUAGES, language)) return [code];
  const keywords = LANGUAGES[language][2];
  const parts = [];
  let at = 0;
  let before = "";
  for (const match of code.matchAll(findPattern(language))) {
    const [all, comment, string, figure] = match;
    const word = language === "sql" ? all.toLowerCase() : all;
    const kind = comment !== undefined ? "c" : string !== undefined ? "s" : figure !== undefined ? "n"
      : keywords.has(word) ? "k" : DEFINE.has(before) || (language === "python" && all[0] === "@") ? "f" : "";
    before = word;
    if (!kind) continue;
    parts.push(code.slice(at, match.index), element("span", { class: kind }, all));
    at = match.index + all.length;
  }
  return [...parts, code.slice(at)];
}
