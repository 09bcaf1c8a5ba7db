/* The Lennard-Jones potential with a gradient written by hand: points as CSV on standard input, numbers as CSV on
   standard output. `gradcli check potential.expr --against-command ./potential` judges every one of them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

static double potential(double r, double epsilon, double sigma, double gradient[3])
{
    double s6 = pow(sigma / r, 6), s12 = s6 * s6;
    gradient[0] = 24 * epsilon / r * (s6 - 2 * s12);
    gradient[1] = 4 * (s12 - s6);
    gradient[2] = 24 * epsilon / sigma * (2 * s12 - s6);
    return 4 * epsilon * (s12 - s6);
}

int main(void)
{
    char header[256];
    double r, epsilon, sigma, g[3];

    if (!fgets(header, sizeof header, stdin) || strcmp(header, "r,epsilon,sigma\n") != 0) {
        fputs("the header is not r,epsilon,sigma\n", stderr);
        return 1;
    }
    puts("v,dv_dr,dv_depsilon,dv_dsigma");
    while (scanf("%lf,%lf,%lf", &r, &epsilon, &sigma) == 3) {
        double v = potential(r, epsilon, sigma, g);
        printf("%.17g,%.17g,%.17g,%.17g\n", v, g[0], g[1], g[2]);
    }
    return 0;
}
