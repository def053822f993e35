typedef struct {
    int32_t channels;
    uint32_t smoothing[2], kept[2]; /* of even and of odd channels: how much of the signal and of the last estimate is new noise */
    uint32_t least;                 /* of the signal that is left in any case */
    int32_t bits, noise_bits;       /* of the fraction of these, and by which the noise has more than the signal */
    int32_t clamping;               /* whether the noise is never more than the signal */
} ${name}_t;

/* The signal without the noise that is heard all the time, and the new estimate of it. x, y, noise, last [channels] */
static void $name(const uint32_t *x, uint32_t *y, uint32_t *noise, uint32_t *last, const ${name}_t *s)
{
    for (int32_t i = 0; i < s->channels; i++) {
        const uint32_t scaled = x[i] << s->noise_bits;
        const uint64_t sum = (uint64_t)scaled * s->smoothing[i & 1] + (uint64_t)last[i] * s->kept[i & 1];
        const uint32_t estimate = (uint32_t)(sum >> s->bits), taken = estimate < scaled ? estimate : scaled;
        const uint32_t least = (uint32_t)(((uint64_t)x[i] * s->least) >> s->bits);
        const uint32_t left = (scaled - taken) >> s->noise_bits;
        y[i] = left > least ? left : least;
        noise[i] = last[i] = s->clamping ? taken : estimate;
    }
}
