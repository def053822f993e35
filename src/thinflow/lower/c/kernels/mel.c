#include <math.h>

typedef struct {
    int32_t first, last;        /* bins that are read: first to before last */
    int32_t channels, coefficients;
    const int16_t *filter;      /* of each bin, the first of the two that let it through */
    const float *weights;       /* of each bin in both, one after the other */
    const float *cosines;       /* [coefficients, channels] */
} ${name}_t;

/* Cosine transform of the logarithms of what filters let through of a spectrum. energies: [channels]. */
static void $name(const float *power, float *y, float *energies, const ${name}_t *s)
{
    for (int32_t i = 0; i < s->channels; i++) {
        energies[i] = 0;
    }
    for (int32_t bin = s->first; bin < s->last; bin++) {
        const float size = sqrtf(power[bin]);
        const float *weights = s->weights + 2 * (bin - s->first);
        const int32_t filter = s->filter[bin - s->first];
        energies[filter] += size * weights[0];
        if (filter + 1 < s->channels) {
            energies[filter + 1] += size * weights[1];
        }
    }
    for (int32_t i = 0; i < s->channels; i++) {
        energies[i] = logf(energies[i] > 1e-12f ? energies[i] : 1e-12f);
    }
    for (int32_t k = 0; k < s->coefficients; k++) {
        float sum = 0;
        for (int32_t i = 0; i < s->channels; i++) {
            sum += energies[i] * s->cosines[k * s->channels + i];
        }
        y[k] = sum;
    }
}
