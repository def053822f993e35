#include <math.h>

/* What pixels go through: $op. */
typedef struct {
    const float *value_0, *value_1, *value_2, *value_3, *value_4, *value_5; /* constants, as many as there are steps */
    int32_t step[6]; /* from channel to channel: 1, or 0 for one of all */
    float in_scale, out_scale;
    int32_t in_zero_point, out_zero_point;
} ${name}_t;

static float ${name}_read(${c_type} x, int32_t c, const ${name}_t *s)
{
    (void)c;
    (void)s;
    return $read;
}

static $y_type ${name}_made(float x, int32_t c, const ${name}_t *s)
{
    (void)c;
    (void)s;
    $store
}
