#include "mel.c"

/* Each frame's spectrum, [bins], to its coefficients. energies: [channels of the filters]. */
static void $name(const float *x, float *y, float *energies, int32_t frames, int32_t bins, const mel_t *s)
{
    for (int32_t frame = 0; frame < frames; frame++, x += bins, y += s->coefficients) {
        mel(x, y, energies, s);
    }
}
