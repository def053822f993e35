/* The $what over one dimension of three. */
static void $name(const ${c_type} *x, ${c_type} *y, int32_t outer, int32_t count, int32_t inner)
{
    for (int32_t o = 0; o < outer; o++, x += count * inner) {
        for (int32_t i = 0; i < inner; i++) {
            ${total_type} total = $first;
            for (int32_t k = 0; k < count; k++) {
                const ${c_type} v = x[k * inner + i];
                total = (${total_type})($then);
            }
            *y++ = (${c_type})($last);
        }
    }
}
