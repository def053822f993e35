#include <math.h>

/* One of the gates: weights [units, inputs] and [units, units], bias [units]. */
typedef struct {
    const float *weights, *recurrent, *bias;
} lstm_gate_float_t;

typedef struct {
    int32_t batches, steps, batch_step, time_step; /* elements of the input from one to the next */
    int32_t y_batch_step, y_time_step;
    int32_t inputs, units;
    lstm_gate_float_t input, forget, cell, output;
    float cell_limit; /* the most the cell may be; 0 for all */
} ${name}_t;

static float lstm_sum_float(const lstm_gate_float_t *gate, const float *x, const float *h, int32_t inputs, int32_t units,
                            int32_t unit)
{
    const float *w = gate->weights + unit * inputs, *r = gate->recurrent + unit * units;
    float sum = gate->bias[unit];
    for (int32_t k = 0; k < inputs; k++) {
        sum += w[k] * x[k];
    }
    for (int32_t k = 0; k < units; k++) {
        sum += r[k] * h[k];
    }
    return sum;
}

static float sigmoid_float(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

/* A layer of LSTM cells over all steps. h [batches, units] and c [batches, units] stay from run to run. */
static void $name(const float *x, float *y, float *h, float *c, float *outputs, const ${name}_t *s)
{
    for (int32_t step = 0; step < s->steps; step++) {
        for (int32_t b = 0; b < s->batches; b++) {
            const float *in = x + step * s->time_step + b * s->batch_step;
            float *state = h + b * s->units, *cell = c + b * s->units;
            for (int32_t u = 0; u < s->units; u++) {
                const float i = sigmoid_float(lstm_sum_float(&s->input, in, state, s->inputs, s->units, u));
                const float f = sigmoid_float(lstm_sum_float(&s->forget, in, state, s->inputs, s->units, u));
                const float g = tanhf(lstm_sum_float(&s->cell, in, state, s->inputs, s->units, u));
                float value = f * cell[u] + i * g;
                outputs[u] = sigmoid_float(lstm_sum_float(&s->output, in, state, s->inputs, s->units, u));
                if (s->cell_limit > 0) {
                    value = value < -s->cell_limit ? -s->cell_limit : value > s->cell_limit ? s->cell_limit : value;
                }
                cell[u] = value;
            }
            /* All sums read the old state: only now may it change. */
            for (int32_t u = 0; u < s->units; u++) {
                state[u] = outputs[u] * tanhf(cell[u]);
            }
            memcpy(y + step * s->y_time_step + b * s->y_batch_step, state, (size_t)s->units * sizeof *state);
        }
    }
}
