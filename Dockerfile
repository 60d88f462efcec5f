# emend in a container: `docker build -t emend .`, or `docker compose up` (docker-compose.yml).
FROM node:22-slim AS build
WORKDIR /emend
COPY package.json package-lock.json ./
RUN npm ci --no-audit --no-fund
COPY tsconfig.json tsconfig.build.json ./
COPY .ci/build.mjs .ci/build.mjs
COPY src src
RUN npm run build

FROM node:22-slim AS packages
WORKDIR /emend
COPY package.json package-lock.json ./
RUN npm ci --omit=dev --no-audit --no-fund

FROM node:22-slim
ENV NODE_ENV=production
WORKDIR /emend
COPY --from=packages /emend/node_modules node_modules
COPY --from=build /emend/dist dist
COPY package.json LICENSE ./
COPY drizzle drizzle
# A mounted /emend/emend.config.ts imports from 'emend'.
RUN ln -s /emend node_modules/emend
USER node
STOPSIGNAL SIGTERM
ENTRYPOINT ["node", "/emend/dist/cli/cli.js"]
CMD ["start"]
