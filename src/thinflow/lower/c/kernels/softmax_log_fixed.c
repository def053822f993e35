#include "leading_zeros.c"
#include "reciprocal.c"
#include "scale_twice.c"

typedef struct {
    int32_t rows, depth;
    int32_t multiplier, shift;           /* of differences, to five integer bits */
    int32_t back_multiplier, back_shift; /* the other way */
    int32_t least;                       /* difference whose exponential counts */
} ${name}_t;

/* x / 2^shift to the nearest, halves away from zero. */
static int32_t ${name}_down(int32_t x, int32_t shift)
{
    const int32_t mask = (int32_t)((1u << shift) - 1u);
    return (x >> shift) + ((x & mask) > (mask >> 1) + (x < 0));
}

/* log(x) of x >= 1 with 12 integer bits, with five: that of the nearest power of two, or of one and a half, plus a fraction
   of polynomials in what is left. */
static int32_t ${name}_log(int32_t x)
{
    const int32_t root = 1805811301, half_root = 1518500250; /* of 1/2 and of its root, 31 bits behind the point */
    const int32_t leading = leading_zeros((uint32_t)x);
    const int32_t turned = doubled_high(x * (1 << (leading - 1)), half_root);
    const int32_t first = turned > INT32_MAX / 2 ? INT32_MAX : turned * 2;
    const int32_t room = leading_zeros((uint32_t)doubled_high(x, half_root)) - 1;
    const int32_t second = x > INT32_MAX >> room ? INT32_MAX : x * (1 << room);
    const int32_t above = (12 - leading) * (1 << 25) + (1 << 23), below = (12 - room) * (1 << 25) - (1 << 23);
    const int32_t r = first < second ? first : second;
    const int32_t power = above > below ? above : below;
    const int32_t p = (int32_t)(((int64_t)r + root + 1) / 2), q = (r - root) * 2;
    const int32_t square = doubled_high(q, q);
    const int32_t upper = doubled_high(q, r) + doubled_high(doubled_high(q, square), 117049297);
    const int32_t lower =
        doubled_high(p, 1057819769 + q + doubled_high(127690142, square)) + doubled_high(638450708, q);
    const int32_t sum = doubled_high(power, 1488522236) + doubled_high(${name}_down(upper, 6), reciprocal(lower));
    return sum > INT32_MAX / 2 ? INT32_MAX : sum * 2;
}

/* Logarithms of softmax of bytes in fixed point, row by row. `exponentials` has exp(-difference) in 31 bits. */
static void $name(const ${c_type} *x, ${c_type} *y, const int32_t *exponentials, const ${name}_t *s)
{
    for (int32_t row = 0; row < s->rows; row++, x += s->depth, y += s->depth) {
        int32_t largest = x[0], sum = 0, least, log_sum;
        for (int32_t i = 1; i < s->depth; i++) {
            largest = x[i] > largest ? x[i] : largest;
        }
        for (int32_t i = 0; i < s->depth; i++) {
            sum += ${name}_down(exponentials[largest - x[i]], 12);
        }
        log_sum = ${name}_log(sum);
        least = scale_twice(log_sum + INT32_MIN, s->back_multiplier, s->back_shift);
        least = least > s->least - 1 ? least : s->least - 1;
        for (int32_t i = 0; i < s->depth; i++) {
            const int32_t difference = x[i] - largest;
            int32_t value = ${name}_down(scale_twice(difference, s->multiplier, s->shift) - log_sum, 22) + ${least} + 255;
            value = difference > least && value > ${least} ? value : ${least};
            y[i] = (${c_type})(value > ${least} + 255 ? ${least} + 255 : value);
        }
    }
}
