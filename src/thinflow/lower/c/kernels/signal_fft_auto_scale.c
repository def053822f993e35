#include "leading_zeros.c"

/* Samples as loud as there is room, and by how many bits. */
static void $name(const int16_t *x, int16_t *y, int32_t *bits, int32_t count)
{
    /* As TFLite Micro finds it in 16 bits: -32768, which has no opposite, makes it negative until something larger comes. */
    int32_t largest = 0;
    for (int32_t i = 0; i < count; i++) {
        if (x[i] > largest) {
            largest = x[i];
        } else if (-x[i] > largest) {
            largest = x[i] == INT16_MIN ? x[i] : -x[i];
        }
    }
    const int32_t room = largest > 0 ? leading_zeros((uint32_t)largest) - 17 : 0;
    for (int32_t i = 0; i < count; i++) {
        y[i] = (int16_t)(x[i] * (1 << room));
    }
    *bits = room;
}
