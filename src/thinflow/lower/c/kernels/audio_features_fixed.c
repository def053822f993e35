#include "spectrum_fixed.c"
#include "mel_fixed.c"

typedef struct {
    int32_t channels, frames, stride;
    spectrum_fixed_t frame;
    mel_fixed_t mel;
} ${name}_t;

/* x [samples,channels] -> y [channels,frames,coefficients], frame by frame: no spectrogram is kept.
   re, im: [bins] each, energies: [channels of the filters]. */
static void $name(const int16_t *x, float *y, int32_t *re, int32_t *im, uint64_t *energies, const ${name}_t *s)
{
    for (int32_t c = 0; c < s->channels; c++) {
        for (int32_t frame = 0; frame < s->frames; frame++, y += s->mel.coefficients) {
            const int32_t power = spectrum_fixed(x + frame * s->stride * s->channels + c, re, im, &s->frame);
            mel_fixed(re, power, y, energies, &s->mel);
        }
    }
}
