/* Elements in runs from one array of up to six dimensions to another; sizes and steps are in bytes. */
typedef struct {
    int32_t count[5]; /* of runs along each dimension but the last */
    int32_t x_step[5], y_step[5];
    int32_t x_start, y_start;
    int32_t run_bytes;
} ${name}_t;

static void $name(const void *x, void *y, const ${name}_t *s)
{
    const uint8_t *from = (const uint8_t *)x + s->x_start;
    uint8_t *to = (uint8_t *)y + s->y_start;
    for (int32_t a = 0; a < s->count[0]; a++) {
        for (int32_t b = 0; b < s->count[1]; b++) {
            for (int32_t c = 0; c < s->count[2]; c++) {
                for (int32_t d = 0; d < s->count[3]; d++) {
                    for (int32_t e = 0; e < s->count[4]; e++) {
                        memcpy(to + a * s->y_step[0] + b * s->y_step[1] + c * s->y_step[2] + d * s->y_step[3] + e * s->y_step[4],
                               from + a * s->x_step[0] + b * s->x_step[1] + c * s->x_step[2] + d * s->x_step[3] +
                                   e * s->x_step[4],
                               (size_t)s->run_bytes);
                    }
                }
            }
        }
    }
}
