/* Signatures of Zephyr that the application uses, on standard input and output. */
#ifndef ZEPHYR_KERNEL_H
#define ZEPHYR_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#endif
