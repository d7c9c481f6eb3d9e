// Reads parameters from the environment. An invalid value ends the run before any request is sent.

const MOST = 1e9;

export function text(name, preset) {
  return __ENV[name] || preset;
}

// Returns a whole number within limits.
export function number(name, preset, least = 1, most = MOST) {
  return within(name, text(name, String(preset)), least, most);
}

// Returns whole numbers, separated by commas.
export function numbers(name, preset, least = 1, most = MOST) {
  return text(name, preset.join(',')).split(',').map((value) => within(name, value.trim(), least, most));
}

// Returns one of these words.
export function word(name, preset, known) {
  return words(name, [preset], known)[0];
}

// Returns some of these words, separated by commas.
export function words(name, preset, known) {
  const found = text(name, preset.join(',')).split(',').map((value) => value.trim());
  const strange = found.find((value) => !known.includes(value));
  if (strange !== undefined) {
    throw new Error(`${name} has "${strange}": give ${known.join(' or ')}`);
  }
  return found;
}

function within(name, value, least, most) {
  if (!/^\d+$/.test(value) || Number(value) < least || Number(value) > most) {
    throw new Error(`${name} has "${value}": give a whole number from ${least} to ${most}`);
  }
  return Number(value);
}
