import { sha512 } from 'k6/crypto';

// Pseudo-random digits and numbers that depend only on the given names and numbers. Digits are cheapest by the hundred,
// from a hash, which runs in Go; numbers one by one, from xorshift32.
export class Random {
  constructor(...names) {
    this.name = names.join('/');
    this.hashes = 0;
    this.digits = '';
    this.state = parseInt(this.hex(8), 16) || 1; // 0 would stay 0
  }

  // Returns `length` hexadecimal digits, 128 at most.
  hex(length) {
    if (this.digits.length < length) {
      this.hashes += 1;
      this.digits = sha512(`${this.name}/${this.hashes}`, 'hex');
    }
    const taken = this.digits.slice(0, length);
    this.digits = this.digits.slice(length);
    return taken;
  }

  // Returns a number from 0 to limit - 1; the limit must be small compared with 2^32.
  below(limit) {
    let state = this.state;
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    this.state = state;
    return (state >>> 0) % limit;
  }

  oneOf(values) {
    return values[this.below(values.length)];
  }
}
