#include "normal_root.c"

typedef struct {
    int32_t window;        /* samples of a frame */
    int32_t half, log2;    /* of the transform: half its length, a power of two, and its logarithm */
    int32_t step;          /* samples of one time side by side: channels */
    const int32_t *weights;           /* of the frame's samples, 30 bits behind the point */
    const int32_t *cosines, *sines;   /* of the transform: [half] each, the angles -pi i / half, 30 bits */
} ${name}_t;

/* Halves upwards. */
static int32_t fixed_product(int32_t a, int32_t b)
{
    return (int32_t)(((int64_t)a * b + (1 << 29)) >> 30);
}

static uint32_t fixed_size(int32_t x)
{
    return x < 0 ? 0u - (uint32_t)x : (uint32_t)x;
}

/* Off by one at most. */
static uint32_t fixed_root(uint64_t x)
{
    if (x == 0) {
        return 0;
    }
    int32_t shift = 0;
    for (; x < (uint64_t)1 << 62; x <<= 2) {
        shift++;
    }
    return normal_root(x) >> shift;
}

/* Numbers brought below 2^29, so that a turn and a sum stay within 32 bits; by how many bits they shrank. */
static int32_t fixed_room(int32_t *re, int32_t *im, int32_t count, uint32_t largest)
{
    int32_t bits = 0;
    for (; bits < 3 && (largest >> bits) >= (1u << 29); bits++) {
    }
    for (int32_t i = 0; i < count && bits > 0; i++) {
        re[i] = (re[i] + (1 << (bits - 1))) >> bits;
        im[i] = (im[i] + (1 << (bits - 1))) >> bits;
    }
    return bits;
}

/* |FFT| of a weighted frame in integers, [half + 1] bins in `re`, times two to the power that is returned. A frame is made as
   loud as there is room, and softer again where its sums need it. re, im: [half + 1] each. */
static int32_t $name(const int16_t *x, int32_t *re, int32_t *im, const ${name}_t *s)
{
    const int32_t half = s->half;
    uint32_t largest = 1;
    for (int32_t i = 0; i < s->window; i++) {
        const uint32_t size = fixed_size(x[i * s->step]);
        largest = size > largest ? size : largest;
    }
    /* Samples of up to 2^15 times weights of 2^30, less 16 bits: below 2^29. */
    int32_t power = 0;
    for (; largest < (1u << 14); largest <<= 1) {
        power++;
    }
    for (int32_t i = 0; i < half; i++) {
        uint32_t from = 0;
        for (int32_t bit = 0; bit < s->log2; bit++) {
            from |= (((uint32_t)i >> bit) & 1u) << (s->log2 - 1 - bit);
        }
        const int32_t even = 2 * (int32_t)from, odd = even + 1;
        const int64_t a = even < s->window ? (int64_t)x[even * s->step] * s->weights[even] : 0;
        const int64_t b = odd < s->window ? (int64_t)x[odd * s->step] * s->weights[odd] : 0;
        re[i] = (int32_t)((a * (1 << power) + (1 << 15)) >> 16);
        im[i] = (int32_t)((b * (1 << power) + (1 << 15)) >> 16);
    }
    largest = 1u << 29;
    for (int32_t size = 1; size < half; size *= 2) {
        const int32_t stride = half / size;
        power -= fixed_room(re, im, half, largest);
        largest = 0;
        for (int32_t k = 0; k < size; k++) {
            const int32_t c = s->cosines[k * stride], d = s->sines[k * stride];
            for (int32_t i = k; i < half; i += 2 * size) {
                const int32_t j = i + size;
                const int32_t a = fixed_product(re[j], c) - fixed_product(im[j], d);
                const int32_t b = fixed_product(re[j], d) + fixed_product(im[j], c);
                re[j] = re[i] - a;
                im[j] = im[i] - b;
                re[i] += a;
                im[i] += b;
                largest |= fixed_size(re[i]) | fixed_size(im[i]) | fixed_size(re[j]) | fixed_size(im[j]);
            }
        }
    }
    power -= fixed_room(re, im, half, largest);
    re[half] = re[0];
    im[half] = im[0];
    /* From both ends, since bin i needs both i and half - i. All are doubled, which the power takes back. */
    for (int32_t i = 0; i <= half / 2; i++) {
        const int32_t j = half - i;
        const int32_t c = i == 0 ? 1 << 30 : s->cosines[i], d = i == 0 ? 0 : s->sines[i];
        const int32_t even_re = re[i] + re[j], even_im = im[i] - im[j];
        const int32_t odd_re = im[i] + im[j], odd_im = re[j] - re[i];
        const int64_t turned_re = (int64_t)fixed_product(odd_re, c) - fixed_product(odd_im, d);
        const int64_t turned_im = (int64_t)fixed_product(odd_re, d) + fixed_product(odd_im, c);
        const int64_t left_re = even_re + turned_re, left_im = even_im + turned_im;
        const int64_t right_re = even_re - turned_re, right_im = even_im - turned_im;
        /* Half of each again: squares of 32 bits. */
        const int64_t parts[4] = {left_re / 2, left_im / 2, right_re / 2, right_im / 2};
        re[i] = (int32_t)(fixed_root((uint64_t)(parts[0] * parts[0]) + (uint64_t)(parts[1] * parts[1])) >> 1);
        re[j] = (int32_t)(fixed_root((uint64_t)(parts[2] * parts[2]) + (uint64_t)(parts[3] * parts[3])) >> 1);
    }
    return power - 1;
}
