/* Sums and how they come to the scale of the output: by the high half of one product of 32 bits. */
typedef struct {
    const int32_t *bias;    /* [channels], with the zero point of the input in it */
    const int32_t *factors; /* [channels] or [1] multiplier, summand, shift */
    int32_t step;           /* from a channel's to the next one's: 3, or 0 if all have the same */
    int32_t min, max;
} ${name}_t;
