typedef struct {
    int32_t channels;
    const int16_t *bins, *places, *widths; /* [channels + 1]: where each filter begins in x and among weights, and its size */
    const ${c_type} *rising, *falling;     /* of filters, one behind the other */
} ${name}_t;

/* Energies that overlapping filters let through: what falls in one rises in the next. x [bins] -> y [channels] */
static void $name(const uint32_t *x, uint64_t *y, const ${name}_t *s)
{
    uint64_t last = 0;
    for (int32_t channel = 0; channel <= s->channels; channel++) {
        const uint32_t *const energies = x + s->bins[channel];
        const ${c_type} *const rising = s->rising + s->places[channel], *const falling = s->falling + s->places[channel];
        uint64_t sum = last;
        last = 0;
        for (int32_t i = 0; i < s->widths[channel]; i++) {
            sum += energies[i] * (uint64_t)(${wide})rising[i];
            last += energies[i] * (uint64_t)(${wide})falling[i];
        }
        /* The first only collects what the second gets of its bins. */
        if (channel > 0) {
            *y++ = sum;
        }
    }
}
