// Numbers as people read them; null and undefined are a dash.

const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
export const whole = (value) => (value === null || value === undefined ? "-" : grouped.format(value));
export const compact = (value) => (value === null || value === undefined ? "-" : Math.abs(value) < 10000 ? grouped.format(value) : short.format(value));
/** What a loss is measured in, by its name in the configuration. */
export const UNITS = {
  logistic: "log loss, in nats an example",
  softmax: "log loss of the class, in nats an example",
  squared: "squared error, in the label\u2019s unit squared",
};

export const loss = (value) => (value === null || value === undefined ? "-" : value.toFixed(4));
export const percent = (share) => `${(100 * share).toFixed(Math.abs(share) < 0.1 ? 1 : 0)}%`;
const small = (size) => size > 0 && size < 0.001; // with all its zeros it would be wider than its column
export const signed = (value) => `${value < 0 ? "\u2212" : "+"}${small(Math.abs(value)) ? Math.abs(value).toExponential(1) : Math.abs(value).toPrecision(3)}`;
export const plural = (count, word) => `${whole(count)} ${word}${count === 1 ? "" : "s"}`;

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "-";
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

export const sum = (values) => values.reduce((total, value) => total + (value ?? 0), 0);
export const total = (facts) => sum(Object.values(facts));
