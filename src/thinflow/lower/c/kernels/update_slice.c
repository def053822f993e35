typedef struct {
    int32_t size[5], part[5], step[5]; /* of the whole and of the part along each dimension; bytes from one to the next */
    int32_t run_bytes;
} ${name}_t;

/* A part of an array in place; where it would reach over the end it begins so much earlier. */
static void $name(const void *part, const ${c_type} *starts, void *y, const ${name}_t *s)
{
    const uint8_t *from = part;
    uint8_t *to = y;
    for (int32_t i = 0; i < 5; i++) {
        const ${c_type} last = (${c_type})(s->size[i] - s->part[i]);
        const ${c_type} start = i < 5 - $rank ? 0 : starts[i - (5 - $rank)];
        to += (int32_t)(start < 0 ? 0 : start > last ? last : start) * s->step[i];
    }
    for (int32_t a = 0; a < s->part[0]; a++) {
        for (int32_t b = 0; b < s->part[1]; b++) {
            for (int32_t c = 0; c < s->part[2]; c++) {
                for (int32_t d = 0; d < s->part[3]; d++, from += s->run_bytes) {
                    memcpy(to + a * s->step[0] + b * s->step[1] + c * s->step[2] + d * s->step[3], from, (size_t)s->run_bytes);
                }
            }
        }
    }
}
