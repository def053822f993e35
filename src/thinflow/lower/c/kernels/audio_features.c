#include "spectrum.c"
#include "mel.c"

typedef struct {
    int32_t channels, frames, stride;
    spectrum_${type}_t frame;
    mel_t mel;
} ${name}_t;

/* x [samples,channels] -> y [channels,frames,coefficients], frame by frame: no spectrogram is kept.
   re, im: [bins] each, energies: [channels of the filters]. */
static void $name(const ${c_type} *x, float *y, float *re, float *im, float *energies, const ${name}_t *s)
{
    for (int32_t c = 0; c < s->channels; c++) {
        for (int32_t frame = 0; frame < s->frames; frame++, y += s->mel.coefficients) {
            spectrum_${type}(x + frame * s->stride * s->channels + c, re, re, im, &s->frame);
            mel(re, y, energies, &s->mel);
        }
    }
}
