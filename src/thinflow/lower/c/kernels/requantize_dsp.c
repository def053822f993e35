/* 256 times a sum, in a register, at the scale of the output. `m` is the multiplier, `a` a summand with the rounding and
   the output's zero point in it, `s` the shift. "up": halves go up. "away": twice rounded, halves away from zero; `h` holds
   64, the half of the first rounding. */
#define REQUANTIZE_up(r, m, a, s, h) \
    "smmla " r ", " r ", " m ", " a "\n asr " r ", " r ", " s "\n ssat " r ", #8, " r "\n"
#define REQUANTIZE_away(r, m, a, s, h)                                                                     \
    "smmla " r ", " r ", " m ", " h "\n asr " r ", " r ", #7\n add " r ", " r ", " r ", asr #31\n"           \
    "add " r ", " r ", " a "\n asr " r ", " r ", " s "\n ssat " r ", #8, " r "\n"
