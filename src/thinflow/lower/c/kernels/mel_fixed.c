typedef struct {
    int32_t first, last;        /* bins that are read: first to before last */
    int32_t channels, coefficients;
    int32_t unit;               /* what 1 has in bits where no power of two is taken out */
    int32_t floor;              /* the least logarithm, 24 bits behind the point */
    const int16_t *filter;      /* of each bin, the first of the two that let it through */
    const uint16_t *weights;    /* of each bin in both, one after the other, 15 bits behind the point */
    const int32_t *cosines;     /* [coefficients, channels], 30 bits behind the point */
} ${name}_t;

/* The logarithm to base 2 of a number above 0, 24 bits behind the point: the bits behind it by squaring. */
static int32_t fixed_log2(uint64_t x)
{
    int32_t whole = 63;
    for (; x < (uint64_t)1 << 63; x <<= 1) {
        whole--;
    }
    uint64_t part = x >> 32;
    int32_t found = 0;
    for (int32_t bit = 0; bit < 24; bit++) {
        part = (part * part + (1u << 30)) >> 31;
        found *= 2;
        if (part >= (uint64_t)1 << 32) {
            part >>= 1;
            found++;
        }
    }
    return whole * (1 << 24) + found;
}

/* Cosine transform of the logarithms of what filters let through of a spectrum, in integers up to the last step. energies:
   [channels]. */
static void $name(const int32_t *size, int32_t power, float *y, uint64_t *energies, const ${name}_t *s)
{
    for (int32_t i = 0; i < s->channels; i++) {
        energies[i] = 0;
    }
    for (int32_t bin = s->first; bin < s->last; bin++) {
        const uint16_t *weights = s->weights + 2 * (bin - s->first);
        const int32_t filter = s->filter[bin - s->first];
        energies[filter] += (uint64_t)size[bin] * weights[0];
        if (filter + 1 < s->channels) {
            energies[filter + 1] += (uint64_t)size[bin] * weights[1];
        }
    }
    for (int32_t i = 0; i < s->channels; i++) {
        int64_t value = s->floor;
        if (energies[i] > 0) {
            value = (int64_t)fixed_log2(energies[i]) - (int64_t)(s->unit + power) * (1 << 24);
            /* By the logarithm of 2, in 30 bits. */
            value = (value * 744261118 + (1 << 29)) >> 30;
        }
        /* Kept where the sum was: 64 bits hold it, and the sign comes back by the cast. */
        energies[i] = (uint64_t)(value < s->floor ? s->floor : value);
    }
    for (int32_t k = 0; k < s->coefficients; k++) {
        int64_t sum = 0;
        for (int32_t i = 0; i < s->channels; i++) {
            sum += (int64_t)energies[i] * s->cosines[k * s->channels + i];
        }
        y[k] = (float)((sum + ((int64_t)1 << 29)) >> 30) / 16777216.0f;
    }
}
