typedef struct {
    int32_t window;        /* samples of a frame */
    int32_t half, log2;    /* of the transform: half its length, a power of two, and its logarithm */
    int32_t step;          /* samples of one time side by side: channels */
    const float *weights;  /* of the frame's samples */
    const float *cosines, *sines; /* of the transform: [half] each, the angles -pi i / half */
} ${name}_t;

/* |FFT|^2 of a weighted frame, [half + 1] bins. Two samples make a complex number; what that mixes is parted at the end.
   re, im: [half + 1] each; they are what the power is made of, and power may be re. */
static void $name(const ${c_type} *x, float *power, float *re, float *im, const ${name}_t *s)
{
    const int32_t half = s->half;
    for (int32_t i = 0; i < half; i++) {
        uint32_t from = 0;
        for (int32_t bit = 0; bit < s->log2; bit++) {
            from |= (((uint32_t)i >> bit) & 1u) << (s->log2 - 1 - bit);
        }
        const int32_t even = 2 * (int32_t)from, odd = even + 1;
        re[i] = even < s->window ? (float)x[even * s->step] * s->weights[even] : 0.0f;
        im[i] = odd < s->window ? (float)x[odd * s->step] * s->weights[odd] : 0.0f;
    }
    for (int32_t size = 1; size < half; size *= 2) {
        const int32_t stride = half / size;
        for (int32_t k = 0; k < size; k++) {
            const float c = s->cosines[k * stride], d = s->sines[k * stride];
            for (int32_t i = k; i < half; i += 2 * size) {
                const int32_t j = i + size;
                const float a = re[j] * c - im[j] * d, b = re[j] * d + im[j] * c;
                re[j] = re[i] - a;
                im[j] = im[i] - b;
                re[i] += a;
                im[i] += b;
            }
        }
    }
    re[half] = re[0];
    im[half] = im[0];
    /* From both ends, since bin i needs both i and half - i. */
    for (int32_t i = 0; i <= half / 2; i++) {
        const int32_t j = half - i;
        const float c = i == 0 ? 1.0f : s->cosines[i], d = i == 0 ? 0.0f : s->sines[i];
        const float even_re = 0.5f * (re[i] + re[j]), even_im = 0.5f * (im[i] - im[j]);
        const float odd_re = 0.5f * (im[i] + im[j]), odd_im = -0.5f * (re[i] - re[j]);
        const float turned_re = odd_re * c - odd_im * d, turned_im = odd_re * d + odd_im * c;
        const float left_re = even_re + turned_re, left_im = even_im + turned_im;
        const float right_re = even_re - turned_re, right_im = even_im - turned_im;
        power[i] = left_re * left_re + left_im * left_im;
        power[j] = right_re * right_re + right_im * right_im;
    }
}
