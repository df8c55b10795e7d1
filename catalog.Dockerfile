# The catalog of catalog/, served by opm. The cache is made at build time, so that a catalog's pod is ready at once.
FROM quay.io/operator-framework/opm:v1.61.0 AS cache
COPY catalog/nairobi-mysql-operator /configs/nairobi-mysql-operator
RUN ["/bin/opm", "serve", "/configs", "--cache-dir=/tmp/cache", "--cache-only"]

FROM quay.io/operator-framework/opm:v1.61.0
COPY --from=cache /configs /configs
COPY --from=cache /tmp/cache /tmp/cache
LABEL operators.operatorframework.io.index.configs.v1=/configs
ENTRYPOINT ["/bin/opm"]
CMD ["serve", "/configs", "--cache-dir=/tmp/cache"]
