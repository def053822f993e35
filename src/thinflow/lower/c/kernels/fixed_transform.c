/* In fixed point as KISS FFT, whose fraction takes all bits but the sign: products are rounded, and what is divided is
   multiplied by a fraction that is a little less. */
static inline ${c_type} ${name}_rounded(${sum_type} x)
{
    return (${c_type})((x + ((${sum_type})1 << ($fraction - 1))) >> $fraction);
}

static inline ${sum_type} ${name}_part(${c_type} x, int32_t parts)
{
    const ${sum_type} most = (${sum_type})(((uint32_t)1 << $fraction) - 1);
    return ${name}_rounded(x * (most / parts));
}

/* re, im of z times those of a turn. */
static inline void ${name}_turned(${sum_type} re, ${sum_type} im, const ${c_type} *turn, ${sum_type} *z)
{
    z[0] = ${name}_rounded(re * turn[0] - im * turn[1]);
    z[1] = ${name}_rounded(re * turn[1] + im * turn[0]);
}

/* Stages of the transform of so many complex numbers, which lie in the order of its first: of four parts each, the first of two
   where the count is no power of four. turns [3 / 4 of count]: a whole one. sign: 1, or -1 backwards. */
static void $name(${c_type} *z, int32_t count, const ${c_type} *turns, int32_t sign)
{
    int32_t size = 1;
    for (int32_t all = count; all > 1; all /= 4) {
        size = all == 2 ? 2 : size;
    }
    if (size == 2) {
        for (int32_t i = 0; i < count; i += 2, z += 4) {
            ${sum_type} other[2];
            ${name}_turned(${name}_part(z[2], 2), ${name}_part(z[3], 2), turns, other);
            const ${sum_type} re = ${name}_part(z[0], 2), im = ${name}_part(z[1], 2);
            z[0] = (${c_type})(re + other[0]);
            z[1] = (${c_type})(im + other[1]);
            z[2] = (${c_type})(re - other[0]);
            z[3] = (${c_type})(im - other[1]);
        }
        z -= 2 * count;
    }
    for (; size < count; size *= 4) {
        for (int32_t k = 0; k < size; k++) {
            const int32_t step = 2 * k * (count / (4 * size));
            for (int32_t i = k; i < count; i += 4 * size) {
                ${sum_type} x[8];
                ${c_type} *const a = z + 2 * i, *const b = a + 2 * size, *const c = b + 2 * size, *const d = c + 2 * size;
                x[0] = ${name}_part(a[0], 4);
                x[1] = ${name}_part(a[1], 4);
                ${name}_turned(${name}_part(b[0], 4), ${name}_part(b[1], 4), turns + step, x + 2);
                ${name}_turned(${name}_part(c[0], 4), ${name}_part(c[1], 4), turns + 2 * step, x + 4);
                ${name}_turned(${name}_part(d[0], 4), ${name}_part(d[1], 4), turns + 3 * step, x + 6);
                const ${sum_type} even_re = x[0] + x[4], even_im = x[1] + x[5], rest_re = x[0] - x[4], rest_im = x[1] - x[5];
                const ${sum_type} odd_re = x[2] + x[6], odd_im = x[3] + x[7];
                /* By a quarter of a turn. */
                const ${sum_type} side_re = sign * (x[3] - x[7]), side_im = sign * (x[6] - x[2]);
                a[0] = (${c_type})(even_re + odd_re);
                a[1] = (${c_type})(even_im + odd_im);
                b[0] = (${c_type})(rest_re + side_re);
                b[1] = (${c_type})(rest_im + side_im);
                c[0] = (${c_type})(even_re - odd_re);
                c[1] = (${c_type})(even_im - odd_im);
                d[0] = (${c_type})(rest_re - side_re);
                d[1] = (${c_type})(rest_im - side_im);
            }
        }
    }
}
