#include "doubled_high.c"

/* 1 / (1 + x) of 0 <= x < 1 in 31 bits, by Newton's iteration from 48/17 - 32/17 (1 + x) / 2. */
static int32_t reciprocal(int32_t x)
{
    const int32_t half = (int32_t)(((int64_t)x + INT32_MAX + 1) / 2);
    int32_t y = 1515870810 + doubled_high(half, -1010580540);
    for (int i = 0; i < 3; i++) {
        const int32_t rest = doubled_high(y, (1 << 29) - doubled_high(half, y));
        y += rest > (1 << 29) - 1 ? INT32_MAX : rest < -(1 << 29) ? INT32_MIN : rest * 4;
    }
    return y > (1 << 30) - 1 ? INT32_MAX : y * 2;
}
