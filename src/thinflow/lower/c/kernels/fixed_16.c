/* Numbers of 16 bits in fixed point, as gemmlowp computes with them: x integer bits before the point. */

static int32_t clamp_16(int32_t x)
{
    return x < -32768 ? -32768 : x > 32767 ? 32767 : x;
}

/* The high half of 2ab, to the nearest, halves upwards. */
static int32_t times_16(int32_t a, int32_t b)
{
    return clamp_16((a * b + (1 << 14)) >> 15);
}

/* x / 2^shift to the nearest, halves away from zero. */
static int32_t halved(int32_t x, int32_t shift)
{
    const int32_t mask = (int32_t)((1u << shift) - 1u);
    return (x >> shift) + ((x & mask) > (mask >> 1) + (x < 0));
}

/* exp(x) of x <= 0, without integer bits: a polynomial for what is below 1/4, times a factor for each bit above. */
static int32_t exp_16(int32_t x, int32_t integer_bits)
{
    static const int16_t factors[7] = {25520, 19875, 12055, 4435, 600, 11, 0};
    const int32_t fraction = 15 - integer_bits;
    const int32_t quarter = 1 << (fraction - 2);
    const int32_t rest = (x & (quarter - 1)) - quarter;
    const int32_t a = clamp_16(rest * (1 << integer_bits)) + (1 << 12);
    const int32_t square = times_16(a, a);
    const int32_t cube = times_16(square, a), fourth = times_16(square, square);
    const int32_t tail = times_16(halved(fourth, 2) + cube, 10923) + square;
    int32_t y = clamp_16(28918 + times_16(28918, a + halved(tail, 1)));
    for (int32_t i = 0; i < 7; i++) {
        if (integer_bits > i - 2 && ((rest - x) & (1 << (fraction + i - 2))) != 0) {
            y = times_16(y, factors[i]);
        }
    }
    if (integer_bits > 5 && x < -(1 << (20 - integer_bits))) {
        y = 0;
    }
    return x == 0 ? 32767 : y;
}

/* 2 / (1 + x) with two integer bits, of 0 <= x <= 1, by Newton's iteration. */
static int32_t reciprocal_16(int32_t x)
{
    const int32_t half = (x + 32768) / 2;
    int32_t y = 23130 + times_16(half, -15420);
    for (int32_t i = 0; i < 3; i++) {
        y += clamp_16(times_16(y, (1 << 13) - times_16(half, y)) * 4);
    }
    return y;
}

/* Of three integer bits, without any. */
static int32_t sigmoid_16(int32_t x)
{
    const int32_t above = clamp_16(reciprocal_16(exp_16(x > 0 ? -x : x, 3)) * 2);
    return x == 0 ? 16384 : x > 0 ? above : 32767 - above;
}

static int32_t tanh_16(int32_t x, int32_t integer_bits)
{
    const int32_t t = clamp_16((reciprocal_16(exp_16(x < 0 ? x : -x, integer_bits + 1)) - (1 << 13)) * 4);
    return x == 0 ? 0 : x < 0 ? -t : t;
}
