/* Elements in runs from one array of up to nine dimensions to another; sizes and steps are in bytes. */
typedef struct {
    int32_t count[8]; /* of runs along each dimension but the last */
    int32_t x_step[8], y_step[8];
    int32_t x_start, y_start;
    int32_t run_bytes;
} ${name}_t;

static void $name(const void *x, void *y, const ${name}_t *s)
{
    int32_t at[8] = {0, 0, 0, 0, 0, 0, 0, 0}, runs = 1;
    for (int32_t d = 0; d < 8; d++) {
        runs *= s->count[d];
    }
    for (int32_t n = 0; n < runs; n++) {
        int32_t from = s->x_start, to = s->y_start;
        int32_t d = 7;
        for (int32_t k = 0; k < 8; k++) {
            from += at[k] * s->x_step[k];
            to += at[k] * s->y_step[k];
        }
        memcpy((uint8_t *)y + to, (const uint8_t *)x + from, (size_t)s->run_bytes);
        for (at[d]++; d > 0 && at[d] == s->count[d]; d--) {
            at[d] = 0;
            at[d - 1]++;
        }
    }
}
