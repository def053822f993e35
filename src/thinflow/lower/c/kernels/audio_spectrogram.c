#include <math.h>
#include "spectrum.c"

typedef struct {
    int32_t channels, frames, stride;
    bool squared;
    spectrum_${type}_t frame;
} ${name}_t;

/* x [samples,channels] -> y [channels,frames,bins]. re, im: [bins] each. */
static void $name(const ${c_type} *x, float *y, float *re, float *im, const ${name}_t *s)
{
    const int32_t bins = s->frame.half + 1;
    for (int32_t c = 0; c < s->channels; c++) {
        for (int32_t frame = 0; frame < s->frames; frame++, y += bins) {
            spectrum_${type}(x + frame * s->stride * s->channels + c, re, re, im, &s->frame);
            for (int32_t i = 0; i < bins; i++) {
                y[i] = s->squared ? re[i] : sqrtf(re[i]);
            }
        }
    }
}
